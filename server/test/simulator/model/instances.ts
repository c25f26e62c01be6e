/** The statements on instances and on what is held for them, said a second time: what they do to the books of the model. */

import type { InstanceRow } from '../../../src/instances/job/row.ts'
import type { AccountRow, Books } from './books.ts'
import type { Statement } from './statements.ts'
import type { View } from './tables.ts'
import type { Parameters } from './wire.ts'

const TOLERANCE_MS = 5_000
const LIVE = ['creating', 'running']

const account = (id: string) => `account ${id}`
const instance = (id: string) => `instance ${id}`
const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10)
const monthOf = (day: string) => `${day.slice(0, 7)}-01`

export const INSTANCE_STATEMENTS: readonly Statement[] = [
  {
    words: 'instances_held_microcents = instances_held_microcents + $2',
    locks: (p) => [account(p.text(1))],
    run(view, books, p) {
      const row = view.get(books.accounts, p.text(1))
      if (row === undefined || !leavesEnough(row, p)) return []
      const [more, hour] = [p.amount(2), p.amount(3)]
      const { held, instancesHeld, burn } = row
      const changed = { held: held + more, instancesHeld: instancesHeld + more, burn: burn + hour }
      view.put(books.accounts, row.organizationId, { ...row, ...changed })
      return [{ organization_id: row.organizationId }]
    },
  },
  {
    words: 'instances_held_microcents = instances_held_microcents - $2',
    locks: (p) => [account(p.text(1))],
    run(view, books, p) {
      const row = view.get(books.accounts, p.text(1))
      if (row === undefined) return []
      const [less, hour] = [p.amount(2), p.amount(3)]
      const { held, instancesHeld, burn } = row
      const changed = { held: held - less, instancesHeld: instancesHeld - less, burn: burn - hour }
      view.put(books.accounts, row.organizationId, { ...row, ...changed })
      return []
    },
  },
  {
    words: 'with gone as (delete from holds where id = $1::uuid and $3::bigint = 0)',
    run(view, books, p) {
      const [id, organizationId, amount] = [p.text(1), p.text(2), p.amount(3)]
      if (amount === 0n) view.delete(books.holds, id)
      else view.put(books.holds, id, { id, organizationId, amount })
      return []
    },
  },
  {
    words: 'select 1 from accounts where organization_id = $1::uuid for update',
    locks: (p) => [account(p.text(1))],
    run: () => [],
  },
  { words: 'with unfolded as ( select coalesce(sum(spent_microcents)', run: figures },
  {
    words: 'insert into instances (id, organization_id, principal_id',
    run(view, books, p) {
      view.put(books.instances, p.text(1), acceptedRow(p))
      return [{ '?column?': 1 }]
    },
  },
  {
    words: 'from instances where id = $1::uuid and ($2::uuid is null or organization_id = $2::uuid) for update',
    locks: (p) => [instance(p.text(1))],
    run(view, books, p) {
      const row = view.get(books.instances, p.text(1))
      const owner = p.textOrNull(2)
      return row === undefined || (owner !== null && row.organization_id !== owner) ? [] : [row]
    },
  },
  {
    words: 'update instances set settled_second = $2::bigint, held_second = $3::bigint',
    locks: (p) => [instance(p.text(1))],
    run(view, books, p) {
      const row = view.get(books.instances, p.text(1))
      if (row === undefined || !LIVE.includes(row.state)) return []
      const short = p.textOrNull(4)
      view.put(books.instances, row.id, {
        ...row,
        settled_second: p.amount(2),
        held_second: p.amount(3),
        short_since: short === null ? null : new Date(short),
      })
      return []
    },
  },
  {
    words: 'update instances set state = $4, due_at = $5::timestamptz, misses = 0',
    locks: (p) => [instance(p.text(1))],
    run(view, books, p) {
      const row = view.get(books.instances, p.text(1))
      const attempt = p.textOrNull(3)
      if (row === undefined || !p.list(2).includes(row.state)) return []
      if (attempt !== null && Number(attempt) !== row.attempt) return []
      const ended = p.textOrNull(8)
      const settled = p.amountOrNull(13)
      const moved: InstanceRow = {
        ...row,
        state: p.text(4) as InstanceRow['state'],
        ended_at: ended === null ? row.ended_at : new Date(ended),
        settled_second: settled ?? row.settled_second,
      }
      view.put(books.instances, row.id, moved)
      return [moved]
    },
  },
  // Nobody here is told of it.
  { words: "'instance_ending', greatest($2::timestamptz", run: () => [] },
]

/** Returns whether every gate that binds leaves what is to be held for an instance, and the cap its hourly price. */
function leavesEnough(row: AccountRow, p: Parameters): boolean {
  const [more, hour, atMs] = [p.amount(2), p.amount(3), p.instant(4)]
  const isNewInstance = p.text(7) === 'true'
  if (row.balance - row.granted - row.held < more) return false
  const stoppable = row.enforcement === 'stop_running' ? row.instancesHeld : 0n
  const fits = (limit: bigint | null, spent: bigint) =>
    limit === null || limit - spent - row.granted - stoppable >= more
  // A process with a later day than the database has a false one.
  const today = dayOf(p.instant(9) + TOLERANCE_MS)
  const earlier = (one: string, other: string) => (one < other ? one : other)
  const daySpent = row.day >= earlier(p.text(5), today) ? row.daySpent : 0n
  const monthSpent = row.month >= earlier(p.text(6), monthOf(today)) ? row.monthSpent : 0n
  const isLimited = row.enforcement === 'stop_running' || (row.enforcement === 'block_launch' && isNewInstance)
  if (isLimited && !(fits(row.dailyLimit, daySpent) && fits(row.monthlyLimit, monthSpent))) return false
  if (!isNewInstance || row.newUntilMs === null || row.newUntilMs <= atMs) return true
  return row.hourSpent + row.granted + row.burn + hour <= p.amount(8)
}

/** The figures of an account with everything posted counted in. */
function figures(view: View, books: Books, p: Parameters): unknown[] {
  const id = p.text(1)
  const row = view.get(books.accounts, id)
  if (row === undefined) return []
  const [atMs, day, windowFromMs] = [p.instant(2), p.text(3), p.instant(5)]
  const month = p.text(4)
  const own = <Row extends { readonly organizationId: string }>(rows: readonly Row[]) =>
    rows.filter(({ organizationId }) => organizationId === id)
  const unfolded = own(view.rows(books.unfoldedSpend))
  const total = (rows: readonly { readonly spent: bigint }[]) => rows.reduce((sum, { spent }) => sum + spent, 0n)
  const inHour = ({ minuteMs }: { readonly minuteMs: number }) =>
    minuteMs >= windowFromMs && minuteMs <= atMs + TOLERANCE_MS
  const charged = (isIn: (day: string) => boolean) =>
    own(view.rows(books.charges))
      .filter(({ admittedAtMs }) => isIn(dayOf(admittedAtMs)))
      .reduce((sum, { cost }) => sum + cost, 0n)
  const granted = own(view.rows(books.shares)).reduce((sum, { slot, granted: of }) => {
    const left = of - total(unfolded.filter((each) => each.slot === slot))
    return left > 0n ? sum + left : sum
  }, 0n)
  const inDay = (each: string) => each === day
  const inMonth = (each: string) => monthOf(each) === month
  const unfoldedIn = (isIn: (day: string) => boolean) => total(unfolded.filter(({ minuteMs }) => isIn(dayOf(minuteMs))))
  return [
    {
      balance: row.balance - total(unfolded),
      granted,
      held: row.held,
      instances_held: row.instancesHeld,
      burn: row.burn,
      day_spent: row.day === day ? row.daySpent + unfoldedIn(inDay) : charged(inDay),
      month_spent: row.month === month ? row.monthSpent + unfoldedIn(inMonth) : charged(inMonth),
      hour_spent: total(own(view.rows(books.minutes)).filter(inHour)) + total(unfolded.filter(inHour)),
      is_new: row.newUntilMs !== null && row.newUntilMs > atMs,
      daily_limit: row.dailyLimit,
      monthly_limit: row.monthlyLimit,
      enforcement: row.enforcement,
      auto_terminate_hours: row.autoTerminateHours,
    },
  ]
}

/** An instance as it is accepted. */
function acceptedRow(p: Parameters): InstanceRow {
  return {
    id: p.text(1),
    organization_id: p.text(2),
    principal_id: p.text(3),
    name: p.text(4),
    app: p.text(5),
    model: p.textOrNull(6),
    gpu_type: p.text(7),
    gpu_count: p.number(8),
    disk_gb: p.number(9),
    hour_microcents: p.amount(11),
    state: 'creating',
    reason: null,
    attempt: 0,
    misses: 0,
    created_at: new Date(p.instant(12)),
    running_at: null,
    ended_at: null,
    app_url: null,
    terminal_url: null,
    missing_since: null,
    settled_second: 0n,
    held_second: p.amount(13),
    short_since: null,
  }
}
