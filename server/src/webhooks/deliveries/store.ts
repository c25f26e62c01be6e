/** The queries by which deliveries are taken, sent and settled. */

import { arrayLiteral, type Queryable, type Transaction } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { DeliveryAttemptResult } from './delivery.ts'

/**
 * Tells the turns of endpoints what is new for them; how many deliveries that were. Every new row is seen to here, however
 * long the queue of its endpoint is, so none waits behind another's. Waits for no lock: what somebody else holds is told
 * the next time.
 */
export async function queueNewDeliveries(db: Queryable, limit: number): Promise<number> {
  const rows = await db.query<{ count: bigint }>(
    // Statistics see next to no new rows, and a plan may be from when there were hardly any at all: no join here may compare
    // each with each or read the table. Rows are found again by where they lie. Turns are locked by id, and before their
    // deliveries: 'skip locked' waits all the same for a row whose last change is committed at that instant and that the next
    // transaction has changed already, and whoever deletes an endpoint holds its turn and waits for its deliveries.
    `with seen as materialized (
       select ctid as place, endpoint_id from webhook_deliveries where is_new order by created_at limit $1::integer
     ), locked as materialized (
       select endpoint_id from webhook_turns where endpoint_id in (select endpoint_id from seen)
       order by endpoint_id for update skip locked
     ), held as materialized (
       select ctid as place from webhook_deliveries where is_new and ctid = any (array(
         select place from seen where (endpoint_id in (select endpoint_id from locked)) is true
       )) for update skip locked
     ), routed as (
       update webhook_deliveries set is_new = false where ctid = any (array(select place from held))
       returning endpoint_id, due_at
     ), woken as (
       -- The lease is looked at in what is set: there it is that of the row as it is now locked. A condition would look at
       -- it as it was when the statement began, and a turn that was given back since would never hear of its delivery.
       update webhook_turns t
       set due_at = case when t.lease is null then least(t.due_at, told.due_at) else t.due_at end
       from (select endpoint_id, min(due_at) as due_at from routed group by endpoint_id) told
       where t.endpoint_id = told.endpoint_id
     )
     select count(*) as count from routed`,
    [limit],
  )
  return Number(rows[0]?.count ?? 0)
}

export interface TakenTurns {
  /** Of the slow lane, or of the other one. */
  readonly isSlow: boolean
  /** Names this taking. */
  readonly lease: string
  readonly nowMs: number
  /** Until then nobody else takes them. */
  readonly untilMs: number
  readonly limit: number
}

/** Takes the turns of endpoints that are due, longest due first, those of dead runners among them; the endpoints. */
export async function takeTurns(
  db: Queryable,
  { isSlow, lease, nowMs, untilMs, limit }: TakenTurns,
): Promise<string[]> {
  const rows = await db.query<{ endpoint_id: string }>(
    `with due as (
       select endpoint_id from webhook_turns where is_slow = $1::boolean and due_at <= $2::timestamptz
       order by due_at limit $3::integer for update skip locked
     )
     update webhook_turns t set lease = $4::uuid, due_at = $5::timestamptz from due
     where t.endpoint_id = due.endpoint_id returning t.endpoint_id`,
    [isSlow, toTimestamp(nowMs), limit, lease, toTimestamp(untilMs)],
  )
  return rows.map(({ endpoint_id }) => endpoint_id)
}

/** A delivery whose attempt is due, with all that it needs. */
export interface DueDelivery {
  readonly id: string
  readonly endpoint_id: string
  readonly url: string
  /** Sealed. */
  readonly secret: Uint8Array
  /** Number of the key that the secret is sealed with. */
  readonly data_key: number
  readonly attempts: number
  readonly attempts_before_round: number
  readonly event_id: string
  readonly created_at: Date
  readonly body: string
}

/**
 * Returns the due deliveries of some endpoints, for each the first so many. A statement of its own: it must see what
 * was settled before.
 */
export async function findDue(
  db: Queryable,
  endpointIds: readonly string[],
  nowMs: number,
  limitEach: number,
): Promise<DueDelivery[]> {
  return await db.query<DueDelivery>(
    `select d.id, e.id as endpoint_id, e.url, e.secret, e.data_key, d.attempts, d.attempts_before_round, d.event_id, d.created_at, v.body
     from webhook_endpoints e
     cross join lateral (
       select * from webhook_deliveries w
       where w.endpoint_id = e.id and w.state = 'pending' and not w.is_new and w.due_at <= $2::timestamptz
       order by w.due_at limit $3::integer
     ) d
     join webhook_events v on v.id = d.event_id
     where e.id = any ($1::text::uuid[])`,
    [arrayLiteral(endpointIds), toTimestamp(nowMs), limitEach],
  )
}

/** A turn that was taken. */
export interface HeldTurn {
  readonly endpointId: string
  readonly lease: string
}

/** Locks those of some turns that are still held by these takings; their leases by endpoint. */
export async function lockHeld(tx: Transaction, turns: readonly HeldTurn[]): Promise<Map<string, string>> {
  const rows = await tx.query<{ endpoint_id: string; lease: string }>(
    `select t.endpoint_id, t.lease from webhook_turns t
     where (t.endpoint_id, t.lease) in (
       select endpoint_id, lease from unnest($1::text::uuid[], $2::text::uuid[]) as held (endpoint_id, lease)
     )
     order by t.endpoint_id for update`,
    [arrayLiteral(turns.map(({ endpointId }) => endpointId)), arrayLiteral(turns.map(({ lease }) => lease))],
  )
  return new Map(rows.map(({ endpoint_id, lease }) => [endpoint_id, lease]))
}

/** The change that an attempt makes to its delivery. */
export interface DeliveryUpdate {
  readonly deliveryId: string
  readonly endpointId: string
  readonly lease: string
  /** As they were before this attempt: another number means that it was settled already. */
  readonly attemptsBefore: number
  readonly state: 'pending' | 'delivered' | 'dead'
  /** Of the next attempt; null unless pending. */
  readonly dueAtMs: number | null
  /** From its event to its delivery; null where it is none, or was asked for again. */
  readonly sinceEventMs: number | null
  readonly outcome: DeliveryAttemptResult
}

/** Writes down attempts and what became of their deliveries; their turns are held. Those of deleted endpoints are gone. */
export async function updateDeliveries(tx: Transaction, settled: readonly DeliveryUpdate[]): Promise<void> {
  const instant = (atMs: number | null) => (atMs === null ? null : toTimestamp(atMs))
  const list = <T extends string | number | null>(read: (each: DeliveryUpdate) => T) => arrayLiteral(settled.map(read))
  await tx.query(
    `with ended as (
       select * from unnest($1::text::uuid[], $2::text::integer[], $3::text::text[], $4::text::timestamptz[],
         $5::text::timestamptz[], $6::text::integer[], $7::text::integer[], $8::text::text[], $9::text::text[])
         as e (id, attempts, state, due_at, started_at, latency_ms, status, failure, answer)
     ), changed as (
       update webhook_deliveries d
       set state = e.state, attempts = d.attempts + 1, due_at = e.due_at, is_new = false
       from ended e where d.id = e.id and d.state = 'pending' and d.attempts = e.attempts
       returning d.id, d.attempts as number, e.started_at, e.latency_ms, e.status, e.failure, e.answer
     )
     insert into webhook_attempts (delivery_id, number, started_at, latency_ms, status, failure, answer)
     select id, number, started_at, latency_ms, status, failure, decode(answer, 'base64') from changed
     on conflict do nothing`,
    [
      list((each) => each.deliveryId),
      list((each) => each.attemptsBefore),
      list((each) => each.state),
      list((each) => instant(each.dueAtMs)),
      list((each) => toTimestamp(each.outcome.startedAtMs)),
      list((each) => each.outcome.latencyMs),
      list((each) => each.outcome.status),
      list((each) => each.outcome.failure),
      list(({ outcome: { answer } }) => (answer === null ? null : Buffer.from(answer).toString('base64'))),
    ],
  )
}

/** A turn that is given back. */
export interface GivenBack extends HeldTurn {
  /** Which lane it goes to; null: the one that it was in. */
  readonly isSlow: boolean | null
}

/** Gives turns back that are held and locked: each is due when the first of its deliveries is, as they are settled now. */
export async function giveBack(tx: Transaction, turns: readonly GivenBack[]): Promise<void> {
  await tx.query(
    `update webhook_turns t set lease = null, is_slow = coalesce(g.is_slow, t.is_slow), due_at = (
       select min(d.due_at) from webhook_deliveries d
       where d.endpoint_id = t.endpoint_id and d.state = 'pending' and not d.is_new
     )
     from unnest($1::text::uuid[], $2::text::boolean[]) as g (endpoint_id, is_slow)
     where t.endpoint_id = g.endpoint_id`,
    [arrayLiteral(turns.map(({ endpointId }) => endpointId)), arrayLiteral(turns.map(({ isSlow }) => isSlow))],
  )
}
