/** The queries by which jobs have their turn. The lock on a model's row lets one process at a time start its jobs. */

import { arrayLiteral, type Queryable, type Transaction } from '../../infra/postgres/database.ts'
import { COUNTED_MOST } from '../../lib/gauge.ts'
import { LOWEST_UUID } from '../../lib/ids.ts'
import { toTimestamp } from '../../lib/time.ts'
import { COLUMNS, toVideo, type VideoRow } from '../job/row.ts'
import type { Submission, Video } from '../job/video.ts'

/** Makes sure that a model has its row. */
export async function openQueue(tx: Transaction, model: string): Promise<void> {
  await tx.query(
    `insert into video_queues (model, last_organization_id, due_at) values ($1, '${LOWEST_UUID}', 'epoch')
     on conflict (model) do nothing`,
    [model],
  )
}

/** Models for which jobs wait and may be started. */
export async function listWaiting(db: Queryable, nowMs: number): Promise<string[]> {
  const rows = await db.query<{ model: string }>(
    `select model from video_queues q where due_at <= $1::timestamptz
       and exists (select from videos v where v.model = q.model and v.status = 'queued')`,
    [toTimestamp(nowMs)],
  )
  return rows.map(({ model }) => model)
}

export interface Queue {
  readonly lastOrganizationId: string
  /** Jobs of the model that providers have or are being asked to take. */
  readonly underWay: number
  /** Times in a row that no provider would take one. */
  readonly failures: number
}

/** Locks the queue of a model until the end of the transaction. Null: another process has it, or it is not its time. */
export async function lockQueue(tx: Transaction, model: string, nowMs: number): Promise<Queue | null> {
  const locked = await tx.query<{ last: string; failures: number }>(
    `select last_organization_id as last, failures from video_queues where model = $1 and due_at <= $2::timestamptz
     for update skip locked`,
    [model, toTimestamp(nowMs)],
  )
  const [row] = locked
  if (row === undefined) return null
  // Behind the lock: what another process started before it is counted.
  const counted = await tx.query<{ under_way: bigint }>(
    `select count(*) as under_way from videos where model = $1 and status in ('submitting', 'in_progress')`,
    [model],
  )
  return { lastOrganizationId: row.last, failures: row.failures, underWay: Number(counted[0]?.under_way ?? 0n) }
}

/** A turn that is to be taken. */
export interface Turn {
  /** The organization whose id is next after this one has it. */
  readonly afterOrganizationId: string
  /** Jobs of that organization that are passed over, if it has as many. */
  readonly passedOver: number
  readonly submission: Submission
  readonly leasedUntilMs: number
}

/** Takes a job of the organization whose turn it is. Null: nobody waits beyond the one before. */
export async function takeNext(tx: Transaction, model: string, turn: Turn): Promise<Video | null> {
  const { afterOrganizationId, passedOver, submission, leasedUntilMs } = turn
  const waiting = "model = $1 and status = 'queued' and organization_id"
  const next = `select organization_id from videos where ${waiting} > $2::uuid order by organization_id limit 1`
  const rows = await tx.query<VideoRow>(
    `update videos set status = 'submitting', attempt = attempt + 1, misses = 0, due_at = $3::timestamptz,
       submission = $4::uuid, target_provider = $5, target_model = $6
     where id = (
       select id from videos where ${waiting} ${passedOver === 0 ? '> $2::uuid' : `= (${next})`}
       order by organization_id, id limit 1 offset $7::integer for update skip locked
     ) and status = 'queued'
     returning ${COLUMNS}`,
    [
      model,
      afterOrganizationId,
      toTimestamp(leasedUntilMs),
      submission.id,
      submission.provider,
      submission.model,
      passedOver,
    ],
  )
  if (rows[0] !== undefined) return toVideo(rows[0])
  return passedOver > 0 ? takeNext(tx, model, { ...turn, passedOver: 0 }) : null
}

export async function noteTurn(tx: Transaction, model: string, organizationId: string): Promise<void> {
  await tx.query('update video_queues set last_organization_id = $2::uuid where model = $1', [model, organizationId])
}

/** No provider would take a job: nobody is asked again for a while, longer each time. */
export async function noteRefused(db: Queryable, model: string, dueAtMs: number): Promise<void> {
  await db.query(
    `update video_queues set due_at = greatest(due_at, $2::timestamptz), failures = failures + 1 where model = $1`,
    [model, toTimestamp(dueAtMs)],
  )
}

/** A provider took one. */
export async function noteTaken(db: Queryable, model: string): Promise<void> {
  await db.query(`update video_queues set failures = 0 where model = $1 and failures > 0`, [model])
}

/** Times in a row that no provider would take a job of a model. */
export async function readFailures(db: Queryable, model: string): Promise<number> {
  const rows = await db.query<{ failures: number }>('select failures from video_queues where model = $1', [model])
  return rows[0]?.failures ?? 0
}

/** Jobs of the same organization and model before one, and organizations that wait for the model; neither beyond its most. */
export async function readAhead(
  db: Queryable,
  { id, organizationId, model }: Video,
  aheadMost: number,
  organizationsMost: number,
): Promise<{ readonly ahead: number; readonly organizations: number }> {
  const rows = await db.query<{ ahead: bigint; organizations: bigint }>(
    `with recursive waiting as (
       (select organization_id from videos where model = $1 and status = 'queued' order by organization_id limit 1)
       union all
       select (select v.organization_id from videos v where v.model = $1 and v.status = 'queued'
           and v.organization_id > w.organization_id order by v.organization_id limit 1)
       from waiting w where w.organization_id is not null
     )
     select (select count(*) from (select from videos where model = $1 and organization_id = $2::uuid
         and status = 'queued' and id < $3::uuid limit $4::integer) a)
       + (select count(*) from videos where model = $1 and organization_id = $2::uuid
         and status = 'submitting' and id < $3::uuid) as ahead,
       (select count(*) from (select organization_id from waiting limit $5::integer) w
         where organization_id is not null) as organizations`,
    [model, organizationId, id, aheadMost, organizationsMost],
  )
  const [row] = rows
  return {
    ahead: Math.min(Number(row?.ahead ?? 0n), aheadMost),
    organizations: Math.max(Number(row?.organizations ?? 0n), 1),
  }
}

/** Returns how long the last jobs of a model took from their start to their completion, in seconds. */
export async function readRecentSeconds(db: Queryable, model: string, most: number): Promise<number[]> {
  const rows = await db.query<{ seconds: number }>(
    `select extract(epoch from completed_at - started_at)::float8 as seconds from videos
     where model = $1 and completed_at is not null order by completed_at desc limit $2::integer`,
    [model, most],
  )
  return rows.map(({ seconds }) => seconds)
}

const ORGANIZATIONS_MOST = 1_000

/** The numbers of a model's jobs that wait and that are under way. */
export interface QueueSize {
  readonly model: string
  /** At most `COUNTED_MOST`. */
  readonly queued: number
  /** Null: none waits. */
  readonly oldestAtMs: number | null
  readonly underWay: number
}

/**
 * The queues of all models, at a cost that does not grow with their lengths: a bounded count by the index, and one look into
 * it for each organization that waits, since the ids of an organization's jobs are in the order of their creation.
 */
export async function readQueueSizes(db: Queryable): Promise<QueueSize[]> {
  const rows = await db.query<{ model: string; queued: bigint; oldest: Date | null; under_way: bigint }>(
    `select q.model,
       (select count(*) from (select from videos v where v.model = q.model and v.status = 'queued'
         limit $1::integer) counted) as queued,
       (with recursive first as (
          (select organization_id, created_at from videos where model = q.model and status = 'queued'
           order by organization_id, id limit 1)
          union all
          select next.organization_id, next.created_at from first f cross join lateral (
            select v.organization_id, v.created_at from videos v
            where v.model = q.model and v.status = 'queued' and v.organization_id > f.organization_id
            order by v.organization_id, v.id limit 1
          ) next
        ) select min(created_at) from (select created_at from first limit $2::integer) looked) as oldest,
       (select count(*) from videos v where v.model = q.model and v.status in ('submitting', 'in_progress')) as under_way
     from video_queues q order by q.model`,
    [COUNTED_MOST, ORGANIZATIONS_MOST],
  )
  return rows.map(({ model, queued, oldest, under_way: underWay }) => {
    return { model, queued: Number(queued), oldestAtMs: oldest?.getTime() ?? null, underWay: Number(underWay) }
  })
}

/**
 * The counterpart of `noteKnown` of `../store.ts`: what was to be sent under these names is with no provider, and whoever knows that has lost
 * the jobs meanwhile. They wait for another turn, until `lapseMs` after their creation.
 */
export async function noteNotTaken(db: Queryable, submissions: readonly string[], lapseMs: number): Promise<void> {
  await db.query(
    `update videos set status = 'queued', attempt = attempt + 1, misses = 0, submission = null, target_provider = null,
       target_model = null, due_at = created_at + $2::integer * interval '1 millisecond'
     where submission = any($1::text::uuid[]) and status = 'submitting'`,
    [arrayLiteral(submissions), lapseMs],
  )
}
