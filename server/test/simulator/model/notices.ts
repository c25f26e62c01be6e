import type { AccountRow, Books, UnfoldedSpendRow } from './books.ts'
import type { View } from './tables.ts'

const DAY_MS = 86_400_000
/** Nobody is told of a day that is over for longer. */
const TOLD_DAYS = 31

export interface Thresholds {
  readonly newAccountCap: bigint
  /** 0: nobody is told of a low balance. */
  readonly lowBalance: bigint
}

/** Says how much of a day or a month, by `count`, had been folded before a renewal. */
export type FoldedIn = (period: string, count: (day: string) => string) => bigint

const startOf = (day: string) => Date.parse(`${day}T00:00:00Z`)
const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10)
const monthOf = (day: string) => `${day.slice(0, 7)}-01`

/** Returns how much may still be granted before somebody must be told; null: nothing of the kind is ahead. */
export function headroomToNotice(account: AccountRow, granted: bigint, { lowBalance }: Thresholds): bigint | null {
  const { balance, toldBelow, enforcement, daySpent, dailyLimit, monthSpent, monthlyLimit } = account
  const ahead: bigint[] = []
  if (lowBalance !== 0n && toldBelow === null && balance >= lowBalance) ahead.push(balance - lowBalance)
  if (enforcement === 'notify_only') {
    if (dailyLimit !== null && daySpent < dailyLimit) ahead.push(dailyLimit - daySpent)
    if (monthlyLimit !== null && monthSpent < monthlyLimit) ahead.push(monthlyLimit - monthSpent)
  }
  return ahead.length === 0 ? null : ahead.reduce((one, other) => (one < other ? one : other)) - granted
}

/**
 * Notes what limits and thresholds a fold has met, each once a period; whether any is new. The limit of a period that is over is met by
 * this fold only, not by what was folded before it.
 */
export function noteReached(
  view: View,
  books: Books,
  account: AccountRow,
  unfoldedSpend: readonly UnfoldedSpendRow[],
  foldedBefore: FoldedIn,
  atMs: number,
  isNew: boolean,
  { newAccountCap, lowBalance }: Thresholds,
): boolean {
  const { organizationId, day, month, daySpent, monthSpent, hourSpent, dailyLimit, monthlyLimit } = account
  let isFirst = false
  const note = (kind: string, periodMs: number, isMet: boolean) => {
    const key = `${organizationId}/${kind}/${periodMs}`
    if (!isMet || view.get(books.notices, key) !== undefined) return
    view.put(books.notices, key, key)
    isFirst = true
  }
  const isMet = (spent: bigint, limit: bigint | null) => limit !== null && spent >= limit
  note('daily', startOf(day), isMet(daySpent, dailyLimit))
  note('monthly', startOf(month), isMet(monthSpent, monthlyLimit))
  note('new_account', startOf(day), isNew && hourSpent >= newAccountCap)
  note('low_balance', atMs, lowBalance !== 0n && account.toldBelow === null && account.balance < lowBalance)
  const charged = (from: string, count: (charged: string) => string) =>
    view
      .rows(books.charges)
      .filter((row) => row.organizationId === organizationId && count(dayOf(row.admittedAtMs)) === from)
      .reduce((sum, { cost }) => sum + cost, 0n)
  const noteEnded = (kind: string, period: string, count: (charged: string) => string, limit: bigint | null) =>
    note(kind, startOf(period), isMet(charged(period, count), limit) && !isMet(foldedBefore(period, count), limit))
  for (const { minuteMs } of unfoldedSpend) {
    const ended = dayOf(minuteMs)
    if (ended >= day || startOf(ended) < startOf(day) - TOLD_DAYS * DAY_MS) continue
    noteEnded('daily', ended, (each) => each, dailyLimit)
    if (ended < month) noteEnded('monthly', monthOf(ended), monthOf, monthlyLimit)
  }
  return isFirst
}
