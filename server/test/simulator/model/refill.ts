/** The statement of a refill, said a second time: written from `money/README.md`, not from its SQL. */

import type { AccountRow, Books, SliceRow } from './books.ts'
import { noteReached, roomToNotice, type Thresholds } from './notices.ts'
import type { View } from './tables.ts'

export interface WantedRow {
  readonly organizationId: string
  readonly launch: bigint
  readonly least: bigint
  readonly extension: bigint
  readonly giveBack: bigint | null
}

export interface RefillNow {
  readonly atMs: number
  readonly day: string
  readonly month: string
  readonly windowFromMs: number
}

const dayStartMs = (day: string) => Date.parse(`${day}T00:00:00Z`)
const later = (one: string, other: string) => (one > other ? one : other)
const most = (...amounts: bigint[]) => amounts.reduce((one, other) => (one > other ? one : other))
const least = (...amounts: (bigint | null)[]) =>
  amounts.filter((amount) => amount !== null).reduce((one, other) => (one < other ? one : other))
const total = (slices: readonly { readonly spent: bigint }[]) => slices.reduce((sum, { spent }) => sum + spent, 0n)

/** Folds, grants and answers, organization by organization. */
export function refill(
  view: View,
  books: Books,
  slot: number,
  wants: readonly WantedRow[],
  now: RefillNow,
  thresholds: Thresholds,
) {
  return wants.flatMap((want) => {
    const account = view.get(books.accounts, want.organizationId)
    return account === undefined ? [] : [refillOne(view, books, slot, want, account, now, thresholds)]
  })
}

function refillOne(
  view: View,
  books: Books,
  slot: number,
  want: WantedRow,
  before: AccountRow,
  now: RefillNow,
  thresholds: Thresholds,
) {
  const { organizationId } = want
  const key = `${organizationId}/${slot}`
  const granted = view.get(books.allotments, key)?.granted ?? 0n
  const slices = takeSlices(view, books, organizationId, slot)
  const account = fold(view, books, before, slices, now)
  const elsewhere = before.allotted - granted
  const kept = most(granted - total(slices) - (want.giveBack ?? 0n), 0n)
  const rooms = roomsOf(account, elsewhere + kept, now, thresholds.newAccountCap)
  const ahead = roomToNotice(account, elsewhere + kept, thresholds)
  const fresh = grant(want, rooms, elsewhere, account.enforcement, ahead)
  const isNew = before.newUntilMs !== null && before.newUntilMs > now.atMs
  const noticed = noteReached(view, books, account, slices, now.atMs, isNew, thresholds)
  const isLow = thresholds.lowBalance !== 0n && account.balance < thresholds.lowBalance
  const toldBelow = before.toldBelow ?? (isLow ? thresholds.lowBalance : null)
  view.put(books.allotments, key, { organizationId, slot, granted: kept + fresh })
  view.put(books.accounts, organizationId, { ...account, allotted: elsewhere + kept + fresh, toldBelow })
  const left = (room: bigint | null) => (room === null ? null : room - fresh)
  const isStopping = account.enforcement === 'stop_running'
  const isUp = (spent: bigint, limit: bigint | null) => isStopping && limit !== null && spent >= limit
  return {
    organization_id: organizationId,
    granted: kept + fresh,
    elsewhere,
    room_balance: rooms.balance - fresh,
    room_daily: left(rooms.daily),
    room_monthly: left(rooms.monthly),
    room_new_account: left(rooms.newAccount),
    stopped: isUp(account.daySpent, account.dailyLimit)
      ? 'daily'
      : isUp(account.monthSpent, account.monthlyLimit)
        ? 'monthly'
        : null,
    stops_running: isStopping,
    day_start: new Date(dayStartMs(account.day)),
    passes_notice: ahead !== null && fresh > ahead,
    noticed,
  }
}

/** What the slot has posted of an organization, which is taken out of the books. */
function takeSlices(view: View, books: Books, organizationId: string, slot: number): SliceRow[] {
  const slices = view.rows(books.slices).filter((row) => row.organizationId === organizationId && row.slot === slot)
  for (const { minuteMs } of slices) view.delete(books.slices, `${organizationId}/${slot}/${minuteMs}`)
  return slices
}

/** The account with the slices counted in: balance, day, month, and for a new organization the minutes of an hour. */
function fold(view: View, books: Books, before: AccountRow, slices: readonly SliceRow[], now: RefillNow): AccountRow {
  const day = later(before.day, now.day)
  const month = later(before.month, now.month)
  const since = (ms: number) => total(slices.filter(({ minuteMs }) => minuteMs >= ms))
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
    if (isNew && minuteMs >= now.windowFromMs) continue
    view.delete(books.minutes, `${organizationId}/${minuteMs}`)
    hourSpent -= spent
  }
  for (const { minuteMs, spent } of slices) {
    if (!isNew || minuteMs < now.windowFromMs) continue
    const so = (minutes.get(minuteMs) ?? 0n) + spent
    view.put(books.minutes, `${organizationId}/${minuteMs}`, { organizationId, minuteMs, spent: so })
    hourSpent += spent
  }
  return {
    ...before,
    balance: before.balance - total(slices),
    day,
    daySpent: (before.day === day ? before.daySpent : 0n) + since(dayStartMs(day)),
    month,
    monthSpent: (before.month === month ? before.monthSpent : 0n) + since(dayStartMs(month)),
    hourSpent,
  }
}

interface RoomsLeft {
  readonly balance: bigint
  readonly daily: bigint | null
  readonly monthly: bigint | null
  readonly newAccount: bigint | null
}

function roomsOf(account: AccountRow, allotted: bigint, now: RefillNow, cap: bigint): RoomsLeft {
  const isCapped = account.enforcement !== 'notify_only'
  const { dailyLimit, monthlyLimit } = account
  const isNew = account.newUntilMs !== null && account.newUntilMs > now.atMs
  // A process behind the account's day gets nothing of the day that it has not reached.
  const daily = dailyLimit === null ? null : account.day > now.day ? 0n : dailyLimit - account.daySpent - allotted
  return {
    balance: account.balance - allotted,
    daily: isCapped ? daily : null,
    monthly: isCapped && monthlyLimit !== null ? monthlyLimit - account.monthSpent - allotted : null,
    newAccount: isNew ? cap - account.hourSpent - allotted : null,
  }
}

function grant(
  want: WantedRow,
  rooms: RoomsLeft,
  elsewhere: bigint,
  enforcement: string,
  ahead: bigint | null,
): bigint {
  const { balance, daily, monthly, newAccount } = rooms
  const room = least(balance, daily, monthly, newAccount)
  const stopping = enforcement === 'stop_running'
  const roomRunning = least(balance, newAccount, stopping ? daily : null, stopping ? monthly : null)
  const need = want.launch + want.extension
  let fresh = 0n
  // Beyond where somebody must be told no more is granted than is needed.
  if (want.giveBack === null && room / 4n >= need) fresh = least(room / 4n, ahead === null ? null : most(ahead, need))
  else if (room >= want.least || elsewhere === 0n) fresh = least(need, room)
  return most(fresh, least(want.extension, roomRunning), 0n)
}
