/** Queries on deliveries as customers see them, and what drops them when they are old. */

import type { Queryable, SqlParameter, Transaction } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type {
  AnsweredAttempt,
  AnsweredDelivery,
  AttemptFailure,
  DeadReason,
  Delivery,
  DeliveryState,
  LoggedAttempt,
} from '../deliveries/delivery.ts'
import type { EventType } from '../events/event.ts'
import type { Place } from '../pages/place.ts'

interface DeliveryRow {
  readonly id: string
  readonly organization_id: string
  readonly endpoint_id: string
  readonly event_id: string
  readonly type: EventType
  readonly state: DeliveryState
  readonly reason: DeadReason | null
  readonly created_at: Date
  readonly due_at: Date | null
}

/** A delivery beside one of its attempts; nulls where it has none yet. */
type JoinedRow<A extends AttemptRow = AttemptRow> = DeliveryRow & (A | { readonly number: null })

interface AttemptRow {
  readonly number: number
  readonly started_at: Date
  readonly latency_ms: number
  readonly status: number | null
  readonly failure: AttemptFailure | null
}

interface AnsweredRow extends AttemptRow {
  readonly answer: Uint8Array | null
}

/** Which deliveries are listed; null: whatever it is. */
export interface DeliveryFilter {
  readonly organizationId: string
  readonly state: DeliveryState | null
  readonly endpointId: string | null
  readonly eventId: string | null
}

/** More than any schedule makes; redeliveries may have made more. */
const ATTEMPTS_SHOWN = 10

export interface FoundDeliveries {
  readonly deliveries: readonly Delivery[]
  /** The last one that was looked at, where the bound on those ended the search; else null. */
  readonly stoppedAt: Place | null
}

/**
 * Finds deliveries behind a place, newest first, each with its last attempts, without their answers. For a state or an endpoint it looks at
 * `lookedAtMost`; of an event there are few. Never by the index of ages, which holds everybody's: no text has `$2 is null or …`, with which
 * the database guesses badly. The order begins with the organization, as a list of one: else PostgreSQL leaves it out of the order.
 */
export async function listDeliveriesAfter(
  db: Queryable,
  { organizationId, state, endpointId, eventId }: DeliveryFilter,
  after: Place | null,
  limit: number,
  lookedAtMost: number,
): Promise<FoundDeliveries> {
  const most = state === null && endpointId === null ? limit : lookedAtMost
  const parameters: SqlParameter[] = [organizationId, limit, most]
  const name = (value: SqlParameter) => `$${parameters.push(value)}`
  const asked = ['true']
  if (state !== null) asked.push(`state = ${name(state)}`)
  if (endpointId !== null) asked.push(`endpoint_id = ${name(endpointId)}::uuid`)
  let which = 'where d.organization_id = any (array[$1::uuid])'
  if (eventId !== null) which += ` and d.event_id = ${name(eventId)}::uuid`
  if (after !== null) {
    which += ` and (d.created_at, d.id) < (${name(toTimestamp(after.createdAtMs))}::timestamptz, ${name(after.id)}::uuid)`
  }
  const order = 'order by d.organization_id, d.created_at desc, d.id desc'
  const lookedAt = `select ${COLUMNS} from webhook_deliveries d ${which} ${order} limit $3::integer`
  const rows = await db.query<JoinedRow & { readonly is_asked: boolean; readonly count: bigint }>(
    withAttempts(
      ATTEMPT_COLUMNS,
      `select * from (
         select d.*, ${asked.join(' and ')} as is_asked, row_number() over (${order}) as count from (${lookedAt}) d
       ) d where is_asked or count = $3::integer ${order} limit $2::integer`,
    ),
    parameters,
  )
  const found = rows.filter((row) => row.is_asked)
  const stop = rows.find(({ count }) => count === BigInt(most))
  const stoppedAt = stop === undefined ? null : { createdAtMs: stop.created_at.getTime(), id: stop.id }
  return { deliveries: toDeliveries(found, toAttempt), stoppedAt }
}

/** One delivery, if it is the organization's, without the answers to its attempts. */
export async function findDelivery(db: Queryable, organizationId: string, id: string): Promise<Delivery | null> {
  const rows = await db.query<JoinedRow>(withAttempts(ATTEMPT_COLUMNS, ONE), [organizationId, id])
  return toDeliveries(rows, toAttempt)[0] ?? null
}

/** The same with the answers. */
export async function findAnsweredDelivery(
  db: Queryable,
  organizationId: string,
  id: string,
): Promise<AnsweredDelivery | null> {
  const rows = await db.query<JoinedRow<AnsweredRow>>(withAttempts(`${ATTEMPT_COLUMNS}, a.answer`, ONE), [
    organizationId,
    id,
  ])
  return toDeliveries(rows, (row) => ({ ...toAttempt(row), answer: row.answer }) satisfies AnsweredAttempt)[0] ?? null
}

const COLUMNS = 'd.id, d.organization_id, d.endpoint_id, d.event_id, d.state, d.reason, d.created_at, d.due_at'
const ONE = `select ${COLUMNS} from webhook_deliveries d where d.organization_id = $1::uuid and d.id = $2::uuid`
const ATTEMPT_COLUMNS = 'a.number, a.started_at, a.latency_ms, a.status, a.failure'

/** One statement, so that nobody sees a delivery that waits beside the attempt that delivered it. */
function withAttempts(columns: string, chosen: string): string {
  return `select d.*, (select type from webhook_events where id = d.event_id) as type, ${columns}
    from (${chosen}) d left join lateral (
      select * from webhook_attempts where delivery_id = d.id order by number desc limit ${ATTEMPTS_SHOWN}
    ) a on true order by d.created_at desc, d.id desc, a.number`
}

function toDeliveries<A extends AttemptRow, B extends LoggedAttempt>(
  rows: readonly JoinedRow<A>[],
  toLogged: (row: A) => B,
): (Delivery & { readonly attempts: readonly B[] })[] {
  return [...Map.groupBy(rows, ({ id }) => id).values()].flatMap((joined) => {
    const [row] = joined
    if (row === undefined) return []
    return {
      id: row.id,
      organizationId: row.organization_id,
      endpointId: row.endpoint_id,
      eventId: row.event_id,
      eventType: row.type,
      state: row.state,
      reason: row.reason,
      createdAtMs: row.created_at.getTime(),
      dueAtMs: row.due_at?.getTime() ?? null,
      attempts: joined.flatMap((each) => (each.number === null ? [] : toLogged(each))),
    }
  })
}

function toAttempt(row: AttemptRow): LoggedAttempt {
  const { number, status, failure } = row
  return { number, startedAtMs: row.started_at.getTime(), latencyMs: row.latency_ms, status, failure }
}

/** Holds an endpoint's turn until the transaction ends; false when there is no such endpoint. */
export async function lockTurn(tx: Transaction, organizationId: string, endpointId: string): Promise<boolean> {
  const rows = await tx.query(
    `select 1 from webhook_turns t join webhook_endpoints e on e.id = t.endpoint_id
     where e.organization_id = $1::uuid and e.id = $2::uuid for update of t`,
    [organizationId, endpointId],
  )
  return rows.length > 0
}

/** Begins a new round of a delivery that is over, and drops attempts that are shown no more. */
export async function beginRound(tx: Transaction, id: string, nowMs: number): Promise<void> {
  await tx.query(
    `with begun as (
       update webhook_deliveries
       set state = 'pending', reason = null, attempts_before_round = attempts, due_at = $2::timestamptz, is_new = true
       where id = $1::uuid and state <> 'pending' returning attempts
     )
     delete from webhook_attempts where delivery_id = $1::uuid and number <= (select attempts from begun) - ${ATTEMPTS_SHOWN}`,
    [id, toTimestamp(nowMs)],
  )
}

/**
 * When an organization's `nth` latest test or redelivery was made, in milliseconds since the epoch; null where it never made so
 * many.
 */
export async function readSends(db: Queryable, organizationId: string, nth: number): Promise<number | null> {
  const rows = await db.query<{ at: Date | null }>(
    'select sent_at[$2::integer] as at from webhook_sends where organization_id = $1::uuid',
    [organizationId, nth],
  )
  return rows[0]?.at?.getTime() ?? null
}

/**
 * Counts a test or redelivery. False, and nothing is written: the organization made `perMinute` within the last minute. Requests
 * of the organization at the same time wait for the transaction.
 */
export async function countSend(
  tx: Transaction,
  organizationId: string,
  nowMs: number,
  perMinute: number,
): Promise<boolean> {
  const counted = await tx.query(
    `insert into webhook_sends as s (organization_id, sent_at) values ($1::uuid, array[$2::timestamptz])
     on conflict (organization_id) do update set sent_at = (array[$2::timestamptz] || s.sent_at)[1:$3::integer]
     where s.sent_at[$3::integer] is null or s.sent_at[$3::integer] <= $2::timestamptz - interval '1 minute'
     returning 1`,
    [organizationId, toTimestamp(nowMs), perMinute],
  )
  return counted.length > 0
}

/** The event types of an endpoint; null when the organization has no such endpoint. */
export async function findTypes(
  db: Queryable,
  organizationId: string,
  endpointId: string,
): Promise<readonly EventType[] | null> {
  const rows = await db.query<{ event_types: readonly EventType[] }>(
    'select event_types from webhook_endpoints where organization_id = $1::uuid and id = $2::uuid',
    [organizationId, endpointId],
  )
  return rows[0]?.event_types ?? null
}

/** Returns whether an organization has `pendingMost` pending deliveries or more. */
export async function isPendingFull(db: Queryable, organizationId: string, pendingMost: number): Promise<boolean> {
  const rows = await db.query<{ count: bigint }>(
    `select count(*) as count from (
       select from webhook_deliveries where organization_id = $1::uuid and state = 'pending' limit $2::integer
     ) counted`,
    [organizationId, pendingMost],
  )
  return Number(rows[0]?.count ?? 0n) >= pendingMost
}

/** Tests of an organization that are kept; with their attempts they have 22 MB at most. */
const TESTS_KEPT = 1_000
/** Old tests that a new one drops at most. */
const TESTS_DROPPED = 20

/** Drops the oldest tests of an organization beyond those that are kept, with their events and attempts. Waits for no lock. */
export async function dropOldTests(tx: Transaction, organizationId: string): Promise<void> {
  await tx.query(
    // Found first and locked then: a lock beside the offset would be taken on all that it passes over.
    `with old as materialized (
       select id from webhook_deliveries where organization_id = $1::uuid and is_test
       order by created_at desc offset ${TESTS_KEPT} limit ${TESTS_DROPPED}
     ), locked as materialized (
       select id from webhook_deliveries where id in (select id from old) for update skip locked
     ), dropped as (
       delete from webhook_deliveries where id in (select id from locked) returning id, event_id
     ), attempts as (
       delete from webhook_attempts where delivery_id in (select id from dropped)
     )
     delete from webhook_events where id in (select event_id from dropped)`,
    [organizationId],
  )
}

/** Makes a delivery that waits for its next attempt due at once; its turn is held, and nobody has it. */
export async function hasten(tx: Transaction, { id, endpointId }: Delivery, nowMs: number): Promise<void> {
  const parameters = [id, endpointId, toTimestamp(nowMs)]
  await tx.query(
    `with hastened as (
       update webhook_deliveries set due_at = $3::timestamptz
       where id = $1::uuid and endpoint_id = $2::uuid and state = 'pending' and not is_new and due_at > $3::timestamptz
       returning endpoint_id
     )
     update webhook_turns t set due_at = least(t.due_at, $3::timestamptz) from hastened h
     where t.endpoint_id = h.endpoint_id and t.lease is null`,
    parameters,
  )
}

/** Notes a test: a delivery of an event to one endpoint. */
export async function insertTest(
  tx: Transaction,
  {
    id,
    organizationId,
    endpointId,
    eventId,
    createdAtMs,
  }: Pick<Delivery, 'id' | 'organizationId' | 'endpointId' | 'eventId' | 'createdAtMs'>,
): Promise<void> {
  await tx.query(
    `insert into webhook_deliveries (id, organization_id, endpoint_id, event_id, state, attempts, attempts_before_round,
       due_at, is_new, is_test, created_at)
     values ($1::uuid, $2::uuid, $3::uuid, $4::uuid, 'pending', 0, 0, $5::timestamptz, true, true, $5::timestamptz)
     on conflict do nothing`,
    [id, organizationId, endpointId, eventId, toTimestamp(createdAtMs)],
  )
}

/**
 * The statements that drop old rows, each by its own index. `offset 0`: whether an event has deliveries is looked up
 * for one after the other of the oldest; as a join it would read all deliveries that there are for each batch.
 */
const DROPPED = {
  attempts: `delete from webhook_attempts where (delivery_id, number) in (
    select delivery_id, number from webhook_attempts where started_at < $1::timestamptz
    order by started_at limit $2::integer for update skip locked) returning 1`,
  deliveries: `delete from webhook_deliveries where id in (
    select id from webhook_deliveries where created_at < $1::timestamptz and state <> 'pending'
    order by created_at limit $2::integer for update skip locked) returning 1`,
  events: `delete from webhook_events where id in (
    select id from webhook_events v where created_at < $1::timestamptz
      and not exists (select 1 from webhook_deliveries d where d.event_id = v.id offset 0)
    order by created_at limit $2::integer for update skip locked) returning 1`,
} as const

/** Drops so many rows from before an instant, oldest first; how many it were. */
export async function dropBefore(
  db: Queryable,
  what: keyof typeof DROPPED,
  beforeMs: number,
  limit: number,
): Promise<number> {
  return (await db.query(DROPPED[what], [toTimestamp(beforeMs), limit])).length
}

/** Drops so many deliveries of an organization, with their attempts; how many it were. */
export async function dropDeliveriesOf(db: Queryable, organizationId: string, limit: number): Promise<number> {
  const rows = await db.query<{ count: bigint }>(
    `with dropped as (
       delete from webhook_deliveries where id in (
         select id from webhook_deliveries where organization_id = $1::uuid limit $2::integer for update skip locked
       ) returning id
     ), attempts as (
       delete from webhook_attempts where delivery_id in (select id from dropped)
     )
     select count(*) as count from dropped`,
    [organizationId, limit],
  )
  return Number(rows[0]?.count ?? 0n)
}

/** Drops so many events of an organization; how many it were. */
export async function dropEventsOf(db: Queryable, organizationId: string, limit: number): Promise<number> {
  const rows = await db.query(
    `delete from webhook_events where id in (
       select id from webhook_events where organization_id = $1::uuid limit $2::integer for update skip locked
     ) returning 1`,
    [organizationId, limit],
  )
  return rows.length
}

/** Forgets when an organization last sent tests. */
export async function deleteSendsOf(db: Queryable, organizationId: string): Promise<void> {
  await db.query('delete from webhook_sends where organization_id = $1::uuid', [organizationId])
}
