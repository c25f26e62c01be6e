/** Every query on instances. */

import { arrayLiteral, type Queryable, type Transaction } from '../infra/postgres/database.ts'
import { toHex } from '../lib/ids.ts'
import { toTimestamp } from '../lib/time.ts'
import {
  INSTANCE_MOVES,
  type Instance,
  type InstanceMoveName,
  type InstanceReason,
  type NewInstance,
} from './job/instance.ts'
import { INSTANCE_COLUMNS, type InstanceRow, toInstance } from './job/row.ts'

const first = (rows: readonly InstanceRow[]): Instance | null => (rows[0] === undefined ? null : toInstance(rows[0]))

/** Keeps an organization from being deleted until the end of the transaction; false where it is deleted. */
export async function holdOwner(tx: Transaction, organizationId: string): Promise<boolean> {
  const rows = await tx.query('select 1 from organizations where id = $1::uuid and deleted_at is null for share', [
    organizationId,
  ])
  return rows.length === 1
}

/**
 * Accepts a new instance: its row is what `acceptedInstance` says of it. Refused, and nothing is written, where the organization
 * has `liveMost` already that are live or being deleted; exact where its account is locked.
 */
export async function insertInstance(
  tx: Transaction,
  instance: NewInstance,
  more: { readonly liveMost: number; readonly dueAtMs: number; readonly billDueAtMs: number },
): Promise<boolean> {
  const rows = await tx.query(
    `insert into instances (id, organization_id, principal_id, name, app, model, gpu_type, gpu_count, disk_gb, price_hash,
       hour_microcents, state, created_at, held_second, due_at, bill_due_at)
     select $1::uuid, $2::uuid, $3::uuid, $4, $5, $6, $7, $8::integer, $9::integer, decode($10, 'hex'), $11::bigint, 'creating',
       $12::timestamptz, $13::bigint, $14::timestamptz, $15::timestamptz
     where (select count(*) from instances where organization_id = $2::uuid and state in ('creating', 'running', 'terminating')) < $16::bigint
     returning 1`,
    [
      ...[instance.id, instance.organizationId, instance.principalId, instance.name, instance.app, instance.model],
      ...[instance.gpuType, instance.gpuCount, instance.diskGb],
      toHex(instance.priceHash),
      instance.hourMicrocents,
      toTimestamp(instance.createdAtMs),
      instance.heldSecond,
      toTimestamp(more.dueAtMs),
      toTimestamp(more.billDueAtMs),
      more.liveMost,
    ],
  )
  return rows.length > 0
}

/** Locks the disk of a GPU type until the end of the transaction, and returns how many GB of it instances have. */
export async function lockDisk(tx: Transaction, gpuType: string): Promise<number> {
  await tx.query("select pg_advisory_xact_lock(hashtextextended('instances disk ' || $1::text, 0))", [gpuType])
  const rows = await tx.query<{ gb: bigint }>(
    `select coalesce(sum(disk_gb), 0)::bigint as gb from instances
     where gpu_type = $1 and state in ('creating', 'running', 'terminating')`,
    [gpuType],
  )
  return Number(rows[0]?.gb ?? 0n)
}

/** An instance of an organization; null: there is none, or it is another's. */
export async function findInstance(db: Queryable, organizationId: string, id: string): Promise<Instance | null> {
  return first(
    await db.query<InstanceRow>(
      `select ${INSTANCE_COLUMNS} from instances where id = $1::uuid and organization_id = $2::uuid`,
      [id, organizationId],
    ),
  )
}

/** An instance, locked until the end of the transaction; of `organizationId` alone where that is given. Null: there is none. */
export async function lockInstance(tx: Transaction, id: string, organizationId?: string): Promise<Instance | null> {
  return first(
    await tx.query<InstanceRow>(
      `select ${INSTANCE_COLUMNS} from instances where id = $1::uuid and ($2::uuid is null or organization_id = $2::uuid) for update`,
      [id, organizationId ?? null],
    ),
  )
}

/** Instances of an organization, the newest first, after one where it is named. */
export async function listInstances(
  db: Queryable,
  organizationId: string,
  after: { readonly createdAtMs: number; readonly id: string } | null,
  limit: number,
): Promise<Instance[]> {
  const rows = await db.query<InstanceRow>(
    `select ${INSTANCE_COLUMNS} from instances where organization_id = $1::uuid
       and ($3::uuid is null or (created_at, id) < ($4::timestamptz, $3::uuid))
     order by created_at desc, id desc limit $2::integer`,
    [organizationId, limit, after?.id ?? null, after === null ? null : toTimestamp(after.createdAtMs)],
  )
  return rows.map(toInstance)
}

/** Returns whether the driver has a machine to delete, of any organization. */
export async function isAnyLeaving(db: Queryable): Promise<boolean> {
  const rows = await db.query(
    "select 1 from instances where due_at is not null and state not in ('creating', 'running') limit 1",
    [],
  )
  return rows.length > 0
}

/** The hourly price of an organization's live instances together, in micro-cents. */
export async function sumBurn(db: Queryable, organizationId: string): Promise<bigint> {
  const rows = await db.query<{ sum: bigint }>(
    `select coalesce(sum(hour_microcents), 0)::bigint as sum from instances
     where organization_id = $1::uuid and state in ('creating', 'running')`,
    [organizationId],
  )
  return rows[0]?.sum ?? 0n
}

/** The columns that a move writes beside the state. */
export interface Moved {
  /** When the driver has to be asked again; null: never. */
  readonly dueAtMs: number | null
  readonly reason?: InstanceReason
  readonly runningAtMs?: number
  readonly endedAtMs?: number
  /** Up to where it is settled. */
  readonly settledSecond?: number
  readonly appUrl?: string | null
  readonly terminalUrl?: string | null
  readonly appTarget?: string | null
  readonly terminalTarget?: string | null
}

/**
 * Moves an instance from one state to the next, if it is in one that the move begins with and, where the move is fenced, in the
 * attempt that is named. Null: it is not, and nothing has changed.
 */
export async function moveInstance(
  tx: Transaction,
  name: InstanceMoveName,
  { id, attempt }: Pick<Instance, 'id' | 'attempt'>,
  moved: Moved,
): Promise<Instance | null> {
  const { from, to, isFenced } = INSTANCE_MOVES[name]
  return first(
    await tx.query<InstanceRow>(
      `update instances set state = $4, due_at = $5::timestamptz, misses = 0, reason = coalesce($6, reason),
         running_at = coalesce($7::timestamptz, running_at), ended_at = coalesce($8::timestamptz, ended_at),
         app_url = coalesce($9, app_url), terminal_url = coalesce($10, terminal_url),
         app_target = coalesce($11, app_target), terminal_target = coalesce($12, terminal_target),
         settled_second = coalesce($13::bigint, settled_second), bill_due_at = case when $4 in ('creating', 'running') then bill_due_at end
       where id = $1::uuid and state = any($2::text::text[]) and ($3::integer is null or attempt = $3::integer)
       returning ${INSTANCE_COLUMNS}`,
      [
        id,
        arrayLiteral(from),
        isFenced ? attempt : null,
        to,
        moved.dueAtMs === null ? null : toTimestamp(moved.dueAtMs),
        moved.reason ?? null,
        moved.runningAtMs === undefined ? null : toTimestamp(moved.runningAtMs),
        moved.endedAtMs === undefined ? null : toTimestamp(moved.endedAtMs),
        moved.appUrl ?? null,
        moved.terminalUrl ?? null,
        moved.appTarget ?? null,
        moved.terminalTarget ?? null,
        moved.settledSecond ?? null,
      ],
    ),
  )
}

/** Writes up to where an instance is settled and held for, since when money is short, and when it is to be billed next. */
export async function writeBilled(
  tx: Transaction,
  { id }: Pick<Instance, 'id'>,
  billed: {
    readonly settledSecond: number
    readonly heldSecond: number
    readonly shortSinceMs: number | null
    readonly billDueAtMs: number
  },
): Promise<void> {
  await tx.query(
    `update instances set settled_second = $2::bigint, held_second = $3::bigint, short_since = $4::timestamptz,
       bill_due_at = $5::timestamptz where id = $1::uuid and state in ('creating', 'running')`,
    [
      id,
      billed.settledSecond,
      billed.heldSecond,
      billed.shortSinceMs === null ? null : toTimestamp(billed.shortSinceMs),
      toTimestamp(billed.billDueAtMs),
    ],
  )
}

/** Instances that a process takes up: at most `limit`, and none of `own`, which it works on. */
interface Taking {
  readonly nowMs: number
  readonly untilMs: number
  readonly limit: number
  readonly own: readonly string[]
}

/**
 * Takes up instances that the driver has to be asked about, each for one process: its attempt is a new one, until `untilMs`. Organizations
 * take turns: one with many that are due, or that this process works on, does not keep the others waiting. One organization has at most
 * `mostOfOne` of them in this process.
 */
export async function takeDueInstances(
  db: Queryable,
  taking: Taking & { readonly mostOfOne: number },
): Promise<Instance[]> {
  const rows = await db.query<InstanceRow>(
    `with busy as (
       select organization_id as busy_id, count(*) as busy from instances where id = any($4::text::uuid[]) group by 1
     ), turns as (
       select id as turn_id, coalesce(busy, 0) + row_number() over (partition by organization_id order by due_at) as turn
       from instances left join busy on busy_id = organization_id
       where due_at <= $1::timestamptz and id <> all($4::text::uuid[])
     ), due as (
       select id as due_id from instances join turns on turn_id = id
       where due_at <= $1::timestamptz and turn <= $5::integer
       order by turn, due_at limit $3::integer for update of instances skip locked
     )
     update instances set attempt = attempt + 1, due_at = $2::timestamptz from due where id = due_id returning ${INSTANCE_COLUMNS}`,
    [toTimestamp(taking.nowMs), toTimestamp(taking.untilMs), taking.limit, arrayLiteral(taking.own), taking.mostOfOne],
  )
  return rows.map(toInstance)
}

/**
 * Leases instances that are due for billing: until `untilMs` nobody else takes them. Each is locked again by the
 * transaction that bills it.
 */
export async function takeBillable(db: Queryable, taking: Taking): Promise<Instance[]> {
  const rows = await db.query<InstanceRow>(
    `with due as (
       select id as due_id from instances where bill_due_at <= $1::timestamptz and id <> all($4::text::uuid[])
       order by bill_due_at limit $3::integer for update skip locked
     )
     update instances set bill_due_at = $2::timestamptz from due where id = due_id returning ${INSTANCE_COLUMNS}`,
    [toTimestamp(taking.nowMs), toTimestamp(taking.untilMs), taking.limit, arrayLiteral(taking.own)],
  )
  return rows.map(toInstance)
}

/** Sets when the driver has to be asked again, in the attempt that is named; null: never. False: it is another's now. */
export async function writeDue(
  db: Queryable,
  { id, attempt }: Pick<Instance, 'id' | 'attempt'>,
  dueAtMs: number | null,
  missed: boolean,
): Promise<boolean> {
  const rows = await db.query(
    `update instances set due_at = $3::timestamptz, misses = case when $4::boolean then misses + 1 else 0 end
     where id = $1::uuid and attempt = $2::integer returning id`,
    [id, attempt, dueAtMs === null ? null : toTimestamp(dueAtMs), missed],
  )
  return rows.length === 1
}

/** Returns whether the driver has still to be asked about an instance. */
export async function isToBeRemoved(tx: Transaction, id: string): Promise<boolean> {
  const rows = await tx.query('select 1 from instances where id = $1::uuid and due_at is not null', [id])
  return rows.length === 1
}

/** Keeps an instance from other processes for longer. False: it is another's now, or there is nothing to ask any more. */
export async function renewDue(
  db: Queryable,
  { id, attempt, state }: Pick<Instance, 'id' | 'attempt' | 'state'>,
  untilMs: number,
): Promise<boolean> {
  const rows = await db.query(
    `update instances set due_at = $4::timestamptz
     where id = $1::uuid and attempt = $2::integer and state = $3 and due_at is not null returning id`,
    [id, attempt, state, toTimestamp(untilMs)],
  )
  return rows.length === 1
}

/** Notes since when the driver's lists do not have an instance that runs; null: they have it. */
export async function setMissing(db: Queryable, id: string, sinceMs: number | null): Promise<void> {
  await db.query(`update instances set missing_since = $2::timestamptz where id = $1::uuid and state = 'running'`, [
    id,
    sinceMs === null ? null : toTimestamp(sinceMs),
  ])
}

/** Takes the turn to ask a driver for its list, when the last one was before an instant. False: another process has it. */
export async function takeListTurn(db: Queryable, driver: string, nowMs: number, beforeMs: number): Promise<boolean> {
  const rows = await db.query(
    `insert into instance_lists as l (driver, listed_at) values ($1, $2::timestamptz)
     on conflict (driver) do update set listed_at = excluded.listed_at where l.listed_at <= $3::timestamptz returning driver`,
    [driver, toTimestamp(nowMs), toTimestamp(beforeMs)],
  )
  return rows.length === 1
}

/** Claims a driver for a place, unless another was seen since an instant. False: another has it. */
export async function claimPlace(
  db: Queryable,
  { driver, place, nowMs, sinceMs }: { driver: string; place: string; nowMs: number; sinceMs: number },
): Promise<boolean> {
  const rows = await db.query(
    `insert into instance_places as p (driver, place, seen_at) values ($1, $2, $3::timestamptz)
     on conflict (driver) do update set place = excluded.place, seen_at = excluded.seen_at
       where p.place = excluded.place or p.seen_at < $4::timestamptz returning driver`,
    [driver, place, toTimestamp(nowMs), toTimestamp(sinceMs)],
  )
  return rows.length === 1
}

/** A page of the instances that have been running since before an instant, in the order of their ids. */
export async function listRunning(db: Queryable, sinceMs: number, afterId: string, limit: number): Promise<Instance[]> {
  const rows = await db.query<InstanceRow>(
    `select ${INSTANCE_COLUMNS} from instances where state = 'running' and running_at < $1::timestamptz and id > $2::uuid
     order by id limit $3::integer`,
    [toTimestamp(sinceMs), afterId, limit],
  )
  return rows.map(toInstance)
}

/** Of these ids, those of instances that somebody is billed for, or whose machine is to be deleted. */
export async function findKnown(db: Queryable, ids: readonly string[]): Promise<Set<string>> {
  const rows = await db.query<{ id: string }>(
    `select id from instances where id = any($1::text::uuid[]) and (state in ('creating', 'running') or due_at is not null)`,
    [arrayLiteral(ids)],
  )
  return new Set(rows.map(({ id }) => id))
}

/** Has the driver asked now about instances that are live. One that is in hand already is asked about in a moment anyway. */
export async function askSoon(db: Queryable, ids: readonly string[], nowMs: number): Promise<void> {
  await db.query(
    `update instances set due_at = $2::timestamptz
     where id = any($1::text::uuid[]) and (state = 'running' and due_at is null)`,
    [arrayLiteral(ids), toTimestamp(nowMs)],
  )
}

/** Has the driver asked again to delete machines of instances that are over. Returns the ids of those instances. */
export async function removeAgain(db: Queryable, ids: readonly string[], nowMs: number): Promise<string[]> {
  const rows = await db.query<{ id: string }>(
    `update instances set due_at = $2::timestamptz
     where id = any($1::text::uuid[]) and state in ('terminated', 'failed') and due_at is null returning id`,
    [arrayLiteral(ids), toTimestamp(nowMs)],
  )
  return rows.map(({ id }) => id)
}
