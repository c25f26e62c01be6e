/** Every query on the table `jobs`. */

import { arrayLiteral, type Queryable, type Transaction } from '../infra/postgres/database.ts'
import { COUNTED_MOST } from '../lib/gauge.ts'
import { toTimestamp } from '../lib/time.ts'
import type { ClaimedJob } from './job.ts'

export interface NewJob {
  readonly kind: string
  readonly organizationId: string
  /** JSON. */
  readonly payload: string
  readonly dueAtMs: number
  readonly uniqueKey: string | null
}

/** Inserts a job. False: one with the same unique key is kept. */
export async function insertJob(tx: Transaction, job: NewJob): Promise<boolean> {
  const rows = await tx.query(
    `insert into jobs (kind, organization_id, payload, due_at, unique_key)
     values ($1, $2::uuid, $3::text::jsonb, $4::timestamptz, $5::text)
     on conflict (kind, organization_id, unique_key) where unique_key is not null do nothing returning id`,
    [job.kind, job.organizationId, job.payload, toTimestamp(job.dueAtMs), job.uniqueKey],
  )
  return rows.length === 1
}

/**
 * Makes jobs ready whose instant has come, and those whose lease has run out; returns how many. A late process keeps its
 * lease until another one takes the job, so that its result still counts.
 */
export async function makeReady(db: Queryable, nowMs: number, limit: number): Promise<number> {
  const rows = await db.query<{ count: bigint }>(
    `with due as materialized (
       select id from jobs where state in ('waiting', 'running') and due_at <= $1::timestamptz
       order by due_at limit $2::integer for update skip locked
     ), made as (
       update jobs j set state = 'ready' from due where j.id = due.id returning j.id
     )
     select count(*) as count from made`,
    [toTimestamp(nowMs), limit],
  )
  return Number(rows[0]?.count ?? 0n)
}

export interface JobClaim {
  readonly kind: string
  /** Only organizations whose ids are greater have a turn. */
  readonly afterOrganizationId: string
  /** Organizations that have no turn. */
  readonly without: readonly string[]
  /** Jobs that this process itself still works on, although it could not renew their leases: not these. */
  readonly own: readonly string[]
  /** At most so many jobs, each of another organization. */
  readonly limit: number
  readonly lease: string
  readonly untilMs: number
}

/**
 * Claims one job of each organization, in the order of their ids. It looks into the index once for each organization that
 * has a turn, however many jobs each of them has. Waits for no lock.
 */
export async function claimJobs(db: Queryable, claim: JobClaim): Promise<ClaimedJob[]> {
  const rows = await db.query<{ id: string; organization_id: string; payload: unknown; attempts: number }>(
    `with recursive turns as (
       (select organization_id from jobs where kind = $1 and state = 'ready' and organization_id > $2::uuid
        order by organization_id limit 1)
       union all
       select (select j.organization_id from jobs j where j.kind = $1 and j.state = 'ready'
           and j.organization_id > t.organization_id order by j.organization_id limit 1)
       from turns t where t.organization_id is not null
     ), chosen as materialized (
       select organization_id from turns
       where organization_id is not null and organization_id <> all($3::text::uuid[]) limit $4::integer
     ), taken as materialized (
       select first.id from chosen c cross join lateral (
         select id from jobs where kind = $1 and state = 'ready' and organization_id = c.organization_id
           and id <> all($7::text::uuid[])
         order by due_at, id limit 1 for update skip locked
       ) first
     )
     update jobs j set state = 'running', attempts = j.attempts + 1, lease = $5::uuid, due_at = $6::timestamptz
     from taken where j.id = taken.id returning j.id, j.organization_id, j.payload, j.attempts`,
    [
      claim.kind,
      claim.afterOrganizationId,
      arrayLiteral(claim.without),
      claim.limit,
      claim.lease,
      toTimestamp(claim.untilMs),
      arrayLiteral(claim.own),
    ],
  )
  return rows.map(({ id, organization_id: organizationId, payload, attempts }) => {
    return { id, organizationId, payload, attempts, lease: claim.lease }
  })
}

/** The claim under which something is written. */
type Held = Pick<ClaimedJob, 'id' | 'lease'>

/** Where nobody else has taken a job, although its lease may have run out. */
const HELD = `id = $1::uuid and lease = $2::uuid and state in ('running', 'ready')`

/** Makes a lease last until `untilMs`. False: the job is another process's, or over. */
export async function renewJob(db: Queryable, { id, lease }: Held, untilMs: number): Promise<boolean> {
  const rows = await db.query(
    `update jobs set state = 'running', due_at = $3::timestamptz where ${HELD} returning id`,
    [id, lease, toTimestamp(untilMs)],
  )
  return rows.length === 1
}

/** Marks a job as done and empties it. False: it is another process's. */
export async function finishJob(db: Queryable, { id, lease }: Held, nowMs: number): Promise<boolean> {
  const rows = await db.query(
    `update jobs set state = 'done', ended_at = $3::timestamptz, lease = null, error = null, payload = '{}'
     where ${HELD} returning id`,
    [id, lease, toTimestamp(nowMs)],
  )
  return rows.length === 1
}

/** Writes down why an attempt failed, and when the next one is due. False: the job is another process's. */
export async function postponeJob(
  db: Queryable,
  { id, lease }: Held,
  { error, dueAtMs }: { readonly error: string; readonly dueAtMs: number },
): Promise<boolean> {
  const rows = await db.query(
    `update jobs set state = 'waiting', lease = null, error = $3, due_at = $4::timestamptz where ${HELD} returning id`,
    [id, lease, error, toTimestamp(dueAtMs)],
  )
  return rows.length === 1
}

/** Makes a job dead after its last attempt, with the reason, and empties it where so asked. False: the job is another process's. */
export async function toDeadJob(
  db: Queryable,
  { id, lease }: Held,
  { error, nowMs, isEmptied }: { readonly error: string; readonly nowMs: number; readonly isEmptied: boolean },
): Promise<boolean> {
  const rows = await db.query(
    `update jobs set state = 'dead', lease = null, error = $3, ended_at = $4::timestamptz,
       payload = case when $5::boolean then '{}' else payload end
     where ${HELD} returning id`,
    [id, lease, error, toTimestamp(nowMs), isEmptied],
  )
  return rows.length === 1
}

/** Gives a job back at once; the attempt does not count. */
export async function giveJobBack(db: Queryable, { id, lease }: Held, nowMs: number): Promise<void> {
  await db.query(
    `update jobs set state = 'waiting', lease = null, attempts = attempts - 1, due_at = $3::timestamptz where ${HELD}`,
    [id, lease, toTimestamp(nowMs)],
  )
}

/** Makes jobs dead that have been due since before an instant and whose kind is not among `kinds`; returns how many. */
export async function toDeadUnhandled(
  db: Queryable,
  kinds: readonly string[],
  { dueBeforeMs, nowMs, error, limit }: { dueBeforeMs: number; nowMs: number; error: string; limit: number },
): Promise<number> {
  const rows = await db.query(
    `update jobs set state = 'dead', error = $4, ended_at = $3::timestamptz where id = any (array(
       select id from jobs where state = 'ready' and due_at < $2::timestamptz and kind <> all($1::text::text[])
       limit $5::integer for update skip locked
     )) returning id`,
    [arrayLiteral(kinds), toTimestamp(dueBeforeMs), toTimestamp(nowMs), error, limit],
  )
  return rows.length
}

/** Deletes jobs that have been done, or dead, since before an instant each; returns how many. */
export async function deleteEnded(
  db: Queryable,
  { doneBeforeMs, deadBeforeMs, limit }: { doneBeforeMs: number; deadBeforeMs: number; limit: number },
): Promise<number> {
  const rows = await db.query(
    `delete from jobs where id = any (array(
       select id from jobs where (state = 'done' and ended_at < $1::timestamptz)
         or (state = 'dead' and ended_at < $2::timestamptz)
       order by ended_at limit $3::integer for update skip locked
     )) returning id`,
    [toTimestamp(doneBeforeMs), toTimestamp(deadBeforeMs), limit],
  )
  return rows.length
}

/** A job in a list of those with a value in their payload. */
export interface FoundJob {
  readonly id: string
  readonly payload: unknown
  readonly dueAtMs: number
}

/** Jobs that are not over. A dead one has its payload still. */
const WITH_PAYLOAD = `kind = $1 and state <> 'done' and lower(payload ->> $2) = any($3::text::text[])`

/** The jobs of a kind that are not done and have one of these values, in lower case, in a field of their payload, by their ids. */
export async function selectJobsWith(
  db: Queryable,
  { kind, field, values }: { readonly kind: string; readonly field: string; readonly values: readonly string[] },
  afterId: string | null,
  atMost: number,
): Promise<FoundJob[]> {
  const rows = await db.query<{ id: string; payload: unknown; due_at: Date }>(
    `select id, payload, due_at from jobs where ${WITH_PAYLOAD} and ($4::uuid is null or id > $4::uuid)
     order by id limit $5::integer`,
    [kind, field, arrayLiteral(values), afterId, atMost],
  )
  return rows.map(({ id, payload, due_at: dueAt }) => ({ id, payload, dueAtMs: dueAt.getTime() }))
}

/** Deletes the same jobs; the result of one that is worked on counts no more. Returns how many. */
export async function deleteJobsWith(
  tx: Transaction,
  { kind, field, values }: { readonly kind: string; readonly field: string; readonly values: readonly string[] },
): Promise<number> {
  const rows = await tx.query(`delete from jobs where ${WITH_PAYLOAD} returning id`, [
    kind,
    field,
    arrayLiteral(values),
  ])
  return rows.length
}

/** Deletes all jobs that take the turn of an organization or a person, whatever their state. */
export async function deleteJobsOfTurn(tx: Transaction, organizationId: string): Promise<void> {
  await tx.query('delete from jobs where organization_id = $1::uuid', [organizationId])
}

/** Jobs of a kind that are due and that nobody works on. */
export interface DueJobs {
  readonly kind: string
  /** All kinds together at most `COUNTED_MOST`. */
  readonly due: number
  /** When the oldest of those counted became due, in milliseconds since the epoch. */
  readonly oldestAtMs: number
}

/** Reads what is due, by kind: the 10,000 that have been due for longest. */
export async function readDueJobs(db: Queryable, nowMs: number): Promise<DueJobs[]> {
  const rows = await db.query<{ kind: string; due: bigint; oldest: Date }>(
    `select kind, count(*) as due, min(due_at) as oldest from (
       (select kind, due_at from jobs where state = 'ready' limit $2::integer)
       union all
       (select kind, due_at from jobs where state in ('waiting', 'running') and due_at <= $1::timestamptz
        order by due_at limit $2::integer)
     ) counted group by kind order by kind`,
    [toTimestamp(nowMs), COUNTED_MOST],
  )
  return rows.map(({ kind, due, oldest }) => ({ kind, due: Number(due), oldestAtMs: oldest.getTime() }))
}

/** Deletes the jobs of an organization, but those of some kinds. Reads the whole table, which nothing but this does. */
export async function deleteJobsOf(db: Queryable, organizationId: string, keptKinds: readonly string[]): Promise<void> {
  await db.query('delete from jobs where organization_id = $1::uuid and kind <> all($2::text::text[])', [
    organizationId,
    arrayLiteral(keptKinds),
  ])
}
