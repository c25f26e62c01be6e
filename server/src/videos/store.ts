/** Every query on jobs. Claims of those that wait for their turn: `queue/store.ts`. */

import { arrayLiteral, type Queryable, type Transaction } from '../infra/postgres/database.ts'
import { toHex } from '../lib/ids.ts'
import { toTimestamp } from '../lib/time.ts'
import { COLUMNS, COLUMNS_OF_LIST, toVideo, type VideoRow } from './job/row.ts'
import { MOVES, type MoveName, type NewVideo, type Submission, type Video, type VideoError } from './job/video.ts'

/**
 * Accepts a new job: its row is what `acceptedVideo` says of it. Else nothing is written: `full`, `queuedMost` jobs of the organization
 * wait already; `deleted`, the organization is deleted. Exact where the organization's account is locked.
 */
export async function insertVideo(
  tx: Transaction,
  video: NewVideo,
  queuedMost: number,
): Promise<'inserted' | 'full' | 'deleted'> {
  // Keeps it from being deleted until the job is there to be cancelled.
  const held = await tx.query('select 1 from organizations where id = $1::uuid and deleted_at is null for share', [
    video.organizationId,
  ])
  if (held.length === 0) return 'deleted'
  const rows = await tx.query(
    `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, prompt,
       seconds, size, status, due_at)
     select $1::uuid, $2::uuid, $3::uuid, $4::timestamptz, $5, $6, decode($7, 'hex'), $8::bigint, $9, $10::integer, $11,
       'queued', $12::timestamptz
     where (${QUEUED('$2', '$13')}) < $13::integer returning 1`,
    [
      video.id,
      video.organizationId,
      video.keyId,
      toTimestamp(video.createdAtMs),
      video.model,
      video.tier,
      toHex(video.priceHash),
      video.secondMicrocents,
      video.prompt,
      video.seconds,
      video.size,
      toTimestamp(video.lapsesAtMs),
      queuedMost,
    ],
  )
  return rows.length > 0 ? 'inserted' : 'full'
}

/** Jobs that have ended, and that nobody has to look at again. */
const OVER = "status in ('failed', 'cancelled', 'expired') and due_at is null"

/**
 * Cancels the jobs of an organization that have not ended; returns their ids. A provider that may be at one is to be told: they are due
 * now. Each of both kinds is found by an index of its own, but both in one look at one table: where PostgreSQL waits for the lock on a row
 * of a `union`, and the row changes meanwhile, it leaves the row out, whatever it says by then.
 */
export async function cancelJobsOf(tx: Transaction, organizationId: string, nowMs: number): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `with live as materialized (
       select id from videos where organization_id = $1::uuid
         and (status = 'queued' or status in ('submitting', 'in_progress'))
       order by id for update
     )
     update videos v set status = $3, due_at = $2::timestamptz, misses = 0, prompt = null,
       cancelled_in_progress_at = case when v.status in ('submitting', 'in_progress') then $2::timestamptz end
     from live where v.id = live.id returning v.id`,
    [organizationId, toTimestamp(nowMs), MOVES.cancel.to],
  )
  return rows.map(({ id }) => id)
}

/** Forgets what providers call an organization's jobs that are over, and that nobody has to look at again. */
export async function forgetProviderJobsOf(db: Queryable, organizationId: string): Promise<void> {
  await db.query(
    `update videos set provider_job = null where organization_id = $1::uuid and ${OVER} and provider_job is not null`,
    [organizationId],
  )
}

/** Makes the files of an organization's completed jobs expire now. */
export async function expireFilesOf(db: Queryable, organizationId: string, nowMs: number): Promise<void> {
  await db.query(
    `update videos set due_at = $2::timestamptz, expires_at = $2::timestamptz
     where organization_id = $1::uuid and status = 'completed' and expires_at > $2::timestamptz`,
    [organizationId, toTimestamp(nowMs)],
  )
}

/** Returns how many jobs of an organization wait for their turn, at most `most`. */
export async function countQueued(db: Queryable, organizationId: string, most: number): Promise<number> {
  const rows = await db.query<{ count: bigint }>(`select (${QUEUED('$1', '$2')}) as count`, [organizationId, most])
  return Number(rows[0]?.count ?? 0n)
}

/** The number of an organization's waiting jobs, up to so many, by the names of two parameters. The order keeps it to its index. */
const QUEUED = (organizationId: string, most: string) =>
  `select count(*) from (select from videos where organization_id = ${organizationId}::uuid and status = 'queued'
     order by id limit ${most}::integer) counted`

/** Drops so many jobs that are over and were made before an instant, oldest first; returns how many. */
export async function dropOver(db: Queryable, beforeMs: number, limit: number): Promise<number> {
  const rows = await db.query(
    `delete from videos where id in (
       select id from videos where ${OVER} and artifact is null and created_at < $1::timestamptz
       order by created_at limit $2::integer for update skip locked) returning 1`,
    [toTimestamp(beforeMs), limit],
  )
  return rows.length
}

/** Jobs of an organization that are kept although they cost nothing: its newest ones, beside all of the last hour. */
const UNPAID_KEPT = 1_000
/** Old ones that a new job drops at most: more than one, so that they become fewer. */
const UNPAID_DROPPED = 50

/**
 * Drops jobs of an organization that were made before an instant, are over and cost nothing, beyond the newest ones that are
 * kept. Those that still count against the limits on cancellations and failures stay.
 */
export async function dropUnpaid(tx: Transaction, organizationId: string, beforeMs: number): Promise<void> {
  await tx.query(
    `delete from videos where id in (
       select id from videos where organization_id = $1::uuid and ${OVER} and completed_at is null
         and created_at < $2::timestamptz
         and (cancelled_in_progress_at is null or cancelled_in_progress_at < $2::timestamptz)
         and (failed_at is null or failed_at < $2::timestamptz)
       order by created_at desc offset ${UNPAID_KEPT} limit ${UNPAID_DROPPED})`,
    [organizationId, toTimestamp(beforeMs)],
  )
}

/** A job of an organization; null: there is none, or it is another's. */
export async function findVideo(db: Queryable, organizationId: string, id: string): Promise<Video | null> {
  const rows = await db.query<VideoRow>(
    `select ${COLUMNS} from videos where id = $1::uuid and organization_id = $2::uuid`,
    [id, organizationId],
  )
  return rows[0] === undefined ? null : toVideo(rows[0])
}

/**
 * Jobs of an organization by the time of their creation, after `after` where one is named. Without their prompts: no list shows
 * them, and 200 may have 25 MB.
 */
export async function listVideos(
  db: Queryable,
  organizationId: string,
  page: { readonly after: Video | null; readonly isDescending: boolean; readonly limit: number },
): Promise<Video[]> {
  const { after, isDescending, limit } = page
  const [sign, order] = isDescending ? ['<', 'desc'] : ['>', 'asc']
  const from = after === null ? '' : `and (created_at, id) ${sign} ($3::timestamptz, $4::uuid)`
  const rows = await db.query<VideoRow>(
    `select ${COLUMNS_OF_LIST} from videos where organization_id = $1::uuid ${from}
     order by created_at ${order}, id ${order} limit $2::integer`,
    [organizationId, limit, ...(after === null ? [] : [toTimestamp(after.createdAtMs), after.id])],
  )
  return rows.map(toVideo)
}

/** The columns that a move writes beside the status. Instants are milliseconds since the epoch; left out: stays. */
export interface Written {
  /** Null: nobody has to look at it again. */
  readonly dueAtMs: number | null
  readonly submission?: Submission | null
  readonly providerJob?: string
  readonly startedAtMs?: number
  readonly error?: VideoError
  /** When it ends without a charge: written where the move fails it, or cancels it while it is in progress. */
  readonly freeEndAtMs?: number
  readonly completion?: {
    readonly seconds: number
    readonly costMicrocents: bigint
    readonly artifact: string
    readonly artifactBytes: number
    readonly completedAtMs: number
    readonly expiresAtMs: number
  }
}

/**
 * Moves a job from one state to the next, if it is in one that the move begins with and, where the move is fenced, in the
 * attempt that is named; a job of `organizationId` alone where that is given. Null: it is not, and nothing has changed.
 * The prompt is deleted with the terminal state; progress never goes back.
 */
export async function moveVideo(
  tx: Transaction,
  name: Exclude<MoveName, 'take'>,
  who: { readonly id: string; readonly attempt: number | null; readonly organizationId?: string },
  written: Written,
): Promise<Video | null> {
  const { from, to, isFenced } = MOVES[name]
  const { submission, completion } = written
  const rows = await tx.query<VideoRow>(
    `update videos set status = $3, due_at = $5::timestamptz, misses = 0,
       prompt = case when $3 in ('queued', 'submitting', 'in_progress') then prompt end,
       submission = case when $6::boolean then $7::uuid else submission end,
       target_provider = case when $6::boolean then $8 else target_provider end,
       target_model = case when $6::boolean then $9 else target_model end,
       provider_job = coalesce($10, provider_job), started_at = coalesce($11::timestamptz, started_at),
       error = coalesce($12, error), progress = case when $3 = 'completed' then 100 else progress end,
       seconds = coalesce($13::integer, seconds), cost_microcents = coalesce($14::bigint, cost_microcents),
       artifact = coalesce($15, artifact), artifact_bytes = coalesce($16::bigint, artifact_bytes),
       completed_at = coalesce($17::timestamptz, completed_at), expires_at = coalesce($18::timestamptz, expires_at),
       failed_at = case when $3 = 'failed' then $20::timestamptz end,
       cancelled_in_progress_at = case when $3 = 'cancelled' and status <> 'queued' then $20::timestamptz end
     where id = $1::uuid and status = any($2::text::text[]) and ($4::integer is null or attempt = $4::integer)
       and ($19::uuid is null or organization_id = $19::uuid)
     returning ${COLUMNS}`,
    [
      who.id,
      arrayLiteral(from),
      to,
      isFenced ? (who.attempt ?? -1) : null,
      written.dueAtMs === null ? null : toTimestamp(written.dueAtMs),
      submission !== undefined,
      submission?.id ?? null,
      submission?.provider ?? null,
      submission?.model ?? null,
      written.providerJob ?? null,
      written.startedAtMs === undefined ? null : toTimestamp(written.startedAtMs),
      written.error ?? null,
      completion?.seconds ?? null,
      completion?.costMicrocents ?? null,
      completion?.artifact ?? null,
      completion?.artifactBytes ?? null,
      completion === undefined ? null : toTimestamp(completion.completedAtMs),
      completion === undefined ? null : toTimestamp(completion.expiresAtMs),
      who.organizationId ?? null,
      written.freeEndAtMs === undefined ? null : toTimestamp(written.freeEndAtMs),
    ],
  )
  return rows[0] === undefined ? null : toVideo(rows[0])
}

/** The ends of jobs that are counted since nobody paid: each has its instants in a column with an index of its own. */
const FREE_ENDS = { cancellation: 'cancelled_in_progress_at', failure: 'failed_at' } as const

/**
 * Returns when the `nth` latest of an organization's jobs that were cancelled in progress, or failed, came to that end, in
 * milliseconds since the epoch; null where fewer did since `sinceMs`. Reads `nth` entries of an index of those alone, at most.
 */
export async function findFreeEnd(
  db: Queryable,
  kind: keyof typeof FREE_ENDS,
  organizationId: string,
  nth: number,
  sinceMs: number,
): Promise<number | null> {
  const at = FREE_ENDS[kind]
  const rows = await db.query<{ at: Date }>(
    `select ${at} as at from videos where organization_id = $1::uuid and ${at} >= $2::timestamptz
     order by ${at} desc limit 1 offset $3::integer`,
    [organizationId, toTimestamp(sinceMs), nth - 1],
  )
  return rows[0]?.at.getTime() ?? null
}

export interface Taking {
  readonly nowMs: number
  readonly leasedUntilMs: number
  /** At most so many. */
  readonly limit: number
  /** Jobs to skip: this process still works on them, though it could not renew their lease. */
  readonly own: readonly string[]
  /** Providers of which this process has enough in hand: none of theirs. */
  readonly crowded: readonly string[]
}

/**
 * Takes up jobs that somebody has to look at, each for one process: its attempt is a new one, until `leasedUntilMs`. `underWay`:
 * those that a provider has, or may have; there are few, found by an index of their own. `rest`: all others, of which
 * very many may be due at once.
 */
export async function takeDue(db: Queryable, which: 'underWay' | 'rest', taking: Taking): Promise<Video[]> {
  const { nowMs, leasedUntilMs, limit, own, crowded } = taking
  const chosen =
    which === 'underWay'
      ? "in ('submitting', 'in_progress') and target_provider <> all($5::text::text[])"
      : "not in ('submitting', 'in_progress') and (target_provider is null or target_provider <> all($5::text::text[]))"
  const rows = await db.query<VideoRow>(
    `with due as (
       select id as due_id from videos
       where due_at <= $1::timestamptz and status ${chosen} and id <> all($4::text::uuid[])
       order by due_at limit $3::integer for update skip locked
     )
     update videos set attempt = attempt + 1, due_at = $2::timestamptz from due where id = due_id returning ${COLUMNS}`,
    [toTimestamp(nowMs), toTimestamp(leasedUntilMs), limit, arrayLiteral(own), arrayLiteral(crowded)],
  )
  return rows.map(toVideo)
}

/** Keeps others off a job for longer. False: it is another's now, or over. */
export async function renewLease(db: Queryable, { id, attempt, status }: Video, untilMs: number): Promise<boolean> {
  const rows = await db.query(
    `update videos set due_at = $4::timestamptz
     where id = $1::uuid and attempt = $2::integer and status = $3 returning id`,
    [id, attempt, status, toTimestamp(untilMs)],
  )
  return rows.length === 1
}

/** Notes how far a job is and when to look again; `missed` counts times in a row. Does nothing to another's. */
export async function noteLooked(
  db: Queryable,
  { id, attempt, status }: Video,
  looked: { readonly progress: number | null; readonly missed: boolean; readonly dueAtMs: number | null },
): Promise<void> {
  await db.query(
    `update videos set progress = greatest(progress, $4::integer), due_at = $6::timestamptz,
       misses = case when $5::boolean then misses + 1 else 0 end
     where id = $1::uuid and attempt = $2::integer and status = $3`,
    [id, attempt, status, looked.progress, looked.missed, looked.dueAtMs === null ? null : toTimestamp(looked.dueAtMs)],
  )
}

/**
 * Notes the job of a provider that took `submission`, though the sender has lost the job meanwhile. The provider's
 * answer is true all the same: a job that is still being looked for is now in progress, one that is over is to be
 * cancelled there. It counts as a new attempt, so that a process which has just looked for the job in vain does not
 * write what follows from that.
 */
export async function noteKnown(db: Queryable, id: string, submission: string, job: string, nowMs: number) {
  await db.query(
    `update videos set provider_job = $3, attempt = attempt + 1, due_at = $4::timestamptz,
       started_at = case when status = 'submitting' then $4::timestamptz else started_at end,
       status = case when status = 'submitting' then 'in_progress' else status end
     where id = $1::uuid and submission = $2::uuid and status in ('submitting', 'cancelled', 'failed')
       and provider_job is null`,
    [id, submission, job, toTimestamp(nowMs)],
  )
}

/** Notes that the file of an expired job is gone. */
export async function forgetArtifact(db: Queryable, { id }: Video): Promise<void> {
  await db.query(`update videos set artifact = null, due_at = null where id = $1::uuid and status = 'expired'`, [id])
}

/** Which of these files belong to nobody: no job has them, and none is just making them. */
export async function findOrphans(
  db: Queryable,
  files: readonly { readonly name: string; readonly id: string; readonly attempt: number }[],
): Promise<string[]> {
  const rows = await db.query<{ name: string }>(
    `select name from unnest($1::text::text[], $2::text::uuid[], $3::text::integer[]) as f (name, video, made_by)
     where not exists (select from videos where id = f.video
       and (artifact = f.name or (status = 'in_progress' and attempt = f.made_by)))`,
    [
      arrayLiteral(files.map(({ name }) => name)),
      arrayLiteral(files.map(({ id }) => id)),
      arrayLiteral(files.map(({ attempt }) => attempt)),
    ],
  )
  return rows.map(({ name }) => name)
}
