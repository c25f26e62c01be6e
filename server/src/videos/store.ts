/** Every query on jobs. Claims of those that wait for their turn: `queue/store.ts`. */

import { arrayLiteral, type Queryable, type Transaction } from '../io/postgres/database.ts'
import { toHex } from '../kernel/ids.ts'
import { toTimestamp } from '../kernel/time.ts'
import { COLUMNS, toVideo, type VideoRow } from './row.ts'
import { MOVES, type MoveName, type Submission, type Video, type VideoError } from './video.ts'

/** A job that is accepted. */
export type NewVideo = Pick<
  Video,
  | 'id'
  | 'organizationId'
  | 'keyId'
  | 'createdAtMs'
  | 'model'
  | 'tier'
  | 'priceHash'
  | 'secondMicrocents'
  | 'seconds'
  | 'size'
> & { readonly prompt: string; readonly lapsesAtMs: number }

export async function insertVideo(tx: Transaction, video: NewVideo): Promise<Video> {
  const rows = await tx.query<VideoRow>(
    `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, prompt,
       seconds, size, status, due_at)
     values ($1::uuid, $2::uuid, $3::uuid, $4::timestamptz, $5, $6, decode($7, 'hex'), $8::bigint, $9, $10::integer, $11,
       'queued', $12::timestamptz)
     returning ${COLUMNS}`,
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
    ],
  )
  const row = rows[0]
  if (row === undefined) throw new Error('an inserted job came back as nothing')
  return toVideo(row)
}

/** A job of an organization; null: there is none, or it is another's. */
export async function findVideo(db: Queryable, organizationId: string, id: string): Promise<Video | null> {
  const rows = await db.query<VideoRow>(
    `select ${COLUMNS} from videos where id = $1::uuid and organization_id = $2::uuid`,
    [id, organizationId],
  )
  return rows[0] === undefined ? null : toVideo(rows[0])
}

/** Jobs of an organization by the time of their creation, after `after` where one is named. */
export async function listVideos(
  db: Queryable,
  organizationId: string,
  page: { readonly after: Video | null; readonly isDescending: boolean; readonly limit: number },
): Promise<Video[]> {
  const { after, isDescending, limit } = page
  const [sign, order] = isDescending ? ['<', 'desc'] : ['>', 'asc']
  const from = after === null ? '' : `and (created_at, id) ${sign} ($3::timestamptz, $4::uuid)`
  const rows = await db.query<VideoRow>(
    `select ${COLUMNS} from videos where organization_id = $1::uuid ${from}
     order by created_at ${order}, id ${order} limit $2::integer`,
    [organizationId, limit, ...(after === null ? [] : [toTimestamp(after.createdAtMs), after.id])],
  )
  return rows.map(toVideo)
}

/** What a move writes beside the status. Instants are milliseconds since the epoch; left out: stays. */
export interface Written {
  /** Null: nobody has to look at it again. */
  readonly dueAtMs: number | null
  readonly submission?: Submission | null
  readonly upstreamJob?: string
  readonly startedAtMs?: number
  readonly error?: VideoError
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
       target_upstream = case when $6::boolean then $8 else target_upstream end,
       target_model = case when $6::boolean then $9 else target_model end,
       upstream_job = coalesce($10, upstream_job), started_at = coalesce($11::timestamptz, started_at),
       error = coalesce($12, error), progress = case when $3 = 'completed' then 100 else progress end,
       seconds = coalesce($13::integer, seconds), cost_microcents = coalesce($14::bigint, cost_microcents),
       artifact = coalesce($15, artifact), artifact_bytes = coalesce($16::bigint, artifact_bytes),
       completed_at = coalesce($17::timestamptz, completed_at), expires_at = coalesce($18::timestamptz, expires_at)
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
      submission?.upstream ?? null,
      submission?.model ?? null,
      written.upstreamJob ?? null,
      written.startedAtMs === undefined ? null : toTimestamp(written.startedAtMs),
      written.error ?? null,
      completion?.seconds ?? null,
      completion?.costMicrocents ?? null,
      completion?.artifact ?? null,
      completion?.artifactBytes ?? null,
      completion === undefined ? null : toTimestamp(completion.completedAtMs),
      completion === undefined ? null : toTimestamp(completion.expiresAtMs),
      who.organizationId ?? null,
    ],
  )
  return rows[0] === undefined ? null : toVideo(rows[0])
}

export interface Taking {
  readonly nowMs: number
  readonly leasedUntilMs: number
  /** At most so many. */
  readonly limit: number
  /** Jobs that this process itself is still at, although it could not say so for a while: not these. */
  readonly own: readonly string[]
  /** Upstreams of which this process has enough in hand: none of theirs. */
  readonly crowded: readonly string[]
}

/**
 * Takes up jobs that somebody has to look at, each for one process: its attempt is a new one, until `leasedUntilMs`. `underWay`:
 * those that an upstream has, or may have; there are few, found by an index of their own. `rest`: all others, of which
 * very many may be due at once.
 */
export async function takeDue(db: Queryable, which: 'underWay' | 'rest', taking: Taking): Promise<Video[]> {
  const { nowMs, leasedUntilMs, limit, own, crowded } = taking
  const chosen =
    which === 'underWay'
      ? "in ('submitting', 'in_progress') and target_upstream <> all($5::text::text[])"
      : "not in ('submitting', 'in_progress') and (target_upstream is null or target_upstream <> all($5::text::text[]))"
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
 * An upstream has taken what was sent to it as `submission`, and whoever sent it has lost the job meanwhile. What it says is
 * true all the same: a job that is still being looked for is in progress by it, one that is over is to be cancelled there.
 * A new attempt, so that who has looked for it in vain at that moment does not write what follows from that.
 */
export async function noteKnown(db: Queryable, id: string, submission: string, job: string, nowMs: number) {
  await db.query(
    `update videos set upstream_job = $3, attempt = attempt + 1, due_at = $4::timestamptz,
       started_at = case when status = 'submitting' then $4::timestamptz else started_at end,
       status = case when status = 'submitting' then 'in_progress' else status end
     where id = $1::uuid and submission = $2::uuid and status in ('submitting', 'cancelled', 'failed')
       and upstream_job is null`,
    [id, submission, job, toTimestamp(nowMs)],
  )
}

/**
 * The counterpart of {@link noteKnown}: what was to be sent under these names is with no upstream, and whoever knows that has lost
 * the jobs meanwhile. They wait for another turn, until `lapseMs` after their creation.
 */
export async function noteNotTaken(db: Queryable, submissions: readonly string[], lapseMs: number): Promise<void> {
  await db.query(
    `update videos set status = 'queued', attempt = attempt + 1, misses = 0, submission = null, target_upstream = null,
       target_model = null, due_at = created_at + $2::integer * interval '1 millisecond'
     where submission = any($1::text::uuid[]) and status = 'submitting'`,
    [arrayLiteral(submissions), lapseMs],
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
