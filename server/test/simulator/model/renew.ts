/** The statement of a renewal, said a second time: written from `billing/README.md`, not from its SQL. */

import type { AccountRow, Books, UnfoldedSpendRow } from './books.ts'
import { type FoldedIn, headroomToNotice, noteReached, type Thresholds } from './notices.ts'
import type { View } from './tables.ts'

export interface WantedRow {
  readonly organizationId: string
  readonly admission: bigint
  readonly least: bigint
  readonly extension: bigint
  readonly giveBack: bigint | null
}

export interface RenewalNow {
  readonly atMs: number
  readonly day: string
  readonly windowFromMs: number
  /** The database's own clock. */
  readonly databaseMs: number
}

/** Charges of instances are posted under it; their spend does not count to the hour of a new account, whose cap counts their prices. */
const INSTANCES_SLOT = -2

/** A day or minute that begins later than this after the database's clock is a false one. */
const TOLERANCE_MS = 5_000

const dayStartMs = (day: string) => Date.parse(`${day}T00:00:00Z`)
const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10)
const monthOf = (day: string) => `${day.slice(0, 7)}-01`
const later = (one: string, other: string) => (one > other ? one : other)
const most = (...amounts: bigint[]) => amounts.reduce((one, other) => (one > other ? one : other))
const least = (...amounts: (bigint | null)[]) =>
  amounts.filter((amount) => amount !== null).reduce((one, other) => (one < other ? one : other))
const total = (unfoldedSpend: readonly { readonly spent: bigint }[]) =>
  unfoldedSpend.reduce((sum, { spent }) => sum + spent, 0n)

/** Folds, grants and answers, organization by organization. */
export function renew(
  view: View,
  books: Books,
  slot: number,
  wants: readonly WantedRow[],
  now: RenewalNow,
  thresholds: Thresholds,
) {
  return wants.flatMap((want) => {
    const account = view.get(books.accounts, want.organizationId)
    return account === undefined ? [] : [renewOne(view, books, slot, want, account, now, thresholds)]
  })
}

function renewOne(
  view: View,
  books: Books,
  slot: number,
  want: WantedRow,
  before: AccountRow,
  now: RenewalNow,
  thresholds: Thresholds,
) {
  const { organizationId } = want
  const key = `${organizationId}/${slot}`
  const share = view.get(books.shares, key)?.granted ?? 0n
  const foldedBefore = foldedOf(view, books, organizationId)
  const unfoldedSpend = takeUnfoldedSpend(view, books, organizationId, slot)
  const account = fold(view, books, before, unfoldedSpend, now, foldedBefore)
  const elsewhere = before.granted - share
  const kept = most(share - total(unfoldedSpend) - (want.giveBack ?? 0n), 0n)
  const headroom = headroomOf(account, elsewhere + kept, now, thresholds.newAccountCap)
  const ahead = headroomToNotice(account, elsewhere + kept, thresholds)
  const fresh = grant(want, headroom, elsewhere, account.enforcement, ahead)
  const isNew = before.newUntilMs !== null && before.newUntilMs > now.atMs
  const noticed = noteReached(view, books, account, unfoldedSpend, foldedBefore, now.atMs, isNew, thresholds)
  const isLow = thresholds.lowBalance !== 0n && account.balance < thresholds.lowBalance
  const toldBelow = before.toldBelow ?? (isLow ? thresholds.lowBalance : null)
  if (kept + fresh > 0n) view.put(books.shares, key, { organizationId, slot, granted: kept + fresh })
  else view.delete(books.shares, key)
  view.put(books.accounts, organizationId, { ...account, granted: elsewhere + kept + fresh, toldBelow })
  const left = (headroomBefore: bigint | null) => (headroomBefore === null ? null : headroomBefore - fresh)
  const isStopping = account.enforcement === 'stop_running'
  const isUp = (spent: bigint, limit: bigint | null) => isStopping && limit !== null && spent >= limit
  return {
    organization_id: organizationId,
    granted: kept + fresh,
    elsewhere,
    headroom_balance: headroom.balance - fresh,
    headroom_daily: left(headroom.daily),
    headroom_monthly: left(headroom.monthly),
    headroom_new_account: left(headroom.newAccount),
    exhausted_limit: isUp(account.daySpent, account.dailyLimit)
      ? 'daily'
      : isUp(account.monthSpent, account.monthlyLimit)
        ? 'monthly'
        : null,
    stops_running: isStopping,
    day_start: new Date(dayStartMs(account.day)),
    passes_notice: ahead !== null && fresh > ahead,
    noticed,
    is_day_mended: before.day > account.day,
  }
}

/** Tells the days of charges: whether one of `count` is that of `period`. */
/**
 * Returns the folded part of the charges of a day or a month: all that were charged, less those that no slot has had
 * folded.
 */
function foldedOf(view: View, books: Books, organizationId: string): FoldedIn {
  const charges = view.rows(books.charges).filter((row) => row.organizationId === organizationId)
  const unfolded = view.rows(books.unfoldedSpend).filter((row) => row.organizationId === organizationId)
  return (period, count) => {
    const charged = charges.filter(({ admittedAtMs }) => count(dayOf(admittedAtMs)) === period)
    return (
      charged.reduce((sum, { cost }) => sum + cost, 0n) -
      total(unfolded.filter(({ minuteMs }) => count(dayOf(minuteMs)) === period))
    )
  }
}

/** Takes the charges that the slot has posted of an organization out of the books, and returns them. */
function takeUnfoldedSpend(view: View, books: Books, organizationId: string, slot: number): UnfoldedSpendRow[] {
  const unfoldedSpend = view
    .rows(books.unfoldedSpend)
    .filter((row) => row.organizationId === organizationId && row.slot === slot)
  for (const { minuteMs } of unfoldedSpend) view.delete(books.unfoldedSpend, `${organizationId}/${slot}/${minuteMs}`)
  return unfoldedSpend
}

/** The account with the unfolded spend counted in: balance, day, month, and for a new organization the minutes of an hour. */
function fold(
  view: View,
  books: Books,
  before: AccountRow,
  unfoldedSpend: readonly UnfoldedSpendRow[],
  now: RenewalNow,
  foldedBefore: FoldedIn,
): AccountRow {
  const horizonMs = now.databaseMs + TOLERANCE_MS
  const lastMinuteMs = Math.max(horizonMs, now.atMs + TOLERANCE_MS)
  const reached = later(before.day, now.day)
  const day = dayStartMs(reached) > horizonMs ? dayOf(now.databaseMs) : reached
  const month = monthOf(day)
  const itself = (each: string) => each
  const within = (period: string, count: (day: string) => string) =>
    total(unfoldedSpend.filter(({ minuteMs }) => count(dayOf(minuteMs)) === period))
  const isNew = before.newUntilMs !== null && before.newUntilMs > now.atMs
  const { organizationId } = before
  const minutes = new Map(
    view
      .rows(books.minutes)
      .filter((row) => row.organizationId === organizationId)
      .map((row) => [row.minuteMs, row.spent]),
  )
  let hourSpent = before.hourSpent
  for (const [minuteMs, spent] of minutes) {
    if (isNew && minuteMs >= now.windowFromMs && minuteMs <= lastMinuteMs) continue
    view.delete(books.minutes, `${organizationId}/${minuteMs}`)
    hourSpent -= spent
  }
  for (const { slot, minuteMs, spent } of unfoldedSpend) {
    if (!isNew || slot === INSTANCES_SLOT || minuteMs < now.windowFromMs || minuteMs > lastMinuteMs) continue
    const so = (minutes.get(minuteMs) ?? 0n) + spent
    view.put(books.minutes, `${organizationId}/${minuteMs}`, { organizationId, minuteMs, spent: so })
    hourSpent += spent
  }
  return {
    ...before,
    balance: before.balance - total(unfoldedSpend),
    day,
    daySpent: (before.day === day ? before.daySpent : foldedBefore(day, itself)) + within(day, itself),
    month,
    monthSpent: (before.month === month ? before.monthSpent : foldedBefore(month, monthOf)) + within(month, monthOf),
    hourSpent,
  }
}

interface HeadroomLeft {
  readonly balance: bigint
  readonly daily: bigint | null
  readonly monthly: bigint | null
  readonly newAccount: bigint | null
}

function headroomOf(account: AccountRow, granted: bigint, now: RenewalNow, cap: bigint): HeadroomLeft {
  const isLimited = account.enforcement !== 'notify_only'
  const stoppable = account.enforcement === 'stop_running' ? account.instancesHeld : 0n
  const { dailyLimit, monthlyLimit } = account
  const isNew = account.newUntilMs !== null && account.newUntilMs > now.atMs
  // A process that counts another day or month than the account gets nothing of the account's.
  const left = (limit: bigint | null, spent: bigint, isSame: boolean) =>
    limit === null ? null : least(limit - spent - granted - stoppable, isSame ? null : 0n)
  const daily = left(dailyLimit, account.daySpent, account.day === now.day)
  const monthly = left(monthlyLimit, account.monthSpent, account.month === monthOf(now.day))
  return {
    balance: account.balance - granted - account.held,
    daily: isLimited ? daily : null,
    monthly: isLimited ? monthly : null,
    newAccount: isNew ? cap - account.hourSpent - granted - account.burn : null,
  }
}

function grant(
  want: WantedRow,
  headroom: HeadroomLeft,
  elsewhere: bigint,
  enforcement: string,
  ahead: bigint | null,
): bigint {
  const { balance, daily, monthly, newAccount } = headroom
  const leastHeadroom = least(balance, daily, monthly, newAccount)
  const stopping = enforcement === 'stop_running'
  const headroomRunning = least(balance, newAccount, stopping ? daily : null, stopping ? monthly : null)
  const need = want.admission + want.extension
  let fresh = 0n
  // Beyond where somebody must be told no more is granted than is needed.
  if (want.giveBack === null && leastHeadroom / 4n >= need)
    fresh = least(leastHeadroom / 4n, ahead === null ? null : most(ahead, need))
  else if (leastHeadroom >= want.least || elsewhere === 0n) fresh = least(need, leastHeadroom)
  return most(fresh, least(want.extension, headroomRunning), 0n)
}
