/** The queries that list charges for their customer and for operators. They only read. */

import type { ListedName } from '../../../catalog/model.ts'
import { arrayLiteral, type Queryable, type SqlParameter } from '../../../infra/postgres/database.ts'
import { toTimestamp } from '../../../lib/time.ts'
import type { ChargePlace, ChargeWindow, ListedCharge, PostedCharge, PostedWindow } from './charge.ts'

interface ChargeRow {
  readonly id: string
  readonly admitted_at: Date
  readonly posted_at: Date
  readonly key_id: string
  readonly model: string
  readonly tier: string
  readonly modality: string
  readonly prompt_tokens: bigint
  readonly cached_prompt_tokens: bigint
  readonly completion_tokens: bigint
  readonly images: number
  readonly seconds: number
  readonly instance_id: string | null
  readonly gpu_count: number | null
  readonly instance_seconds: number | null
  readonly estimated: boolean
  readonly cost_microcents: bigint
  readonly is_covered: boolean
  readonly outcome: string
}

const COLUMNS = `id, admitted_at, posted_at, key_id, model, tier, coalesce(modality, 'chat') as modality, prompt_tokens,
  cached_prompt_tokens, completion_tokens, coalesce(image_count, 0) as images, coalesce(video_seconds, 0) as seconds, estimated,
  cost_microcents, plan_period is not null as is_covered, outcome, instance_id, gpu_count, instance_seconds`

export interface ChargeQuestion {
  readonly organizationId: string
  /** Of admission: from `startMs` up to, and without, `endMs`. */
  readonly startMs: number
  readonly endMs: number
  /** Null: of every key. */
  readonly keyId: string | null
  /** Null: of every model. */
  readonly model: ListedName | null
  /** The last charge of the page before; null on the first. */
  readonly after: ChargePlace | null
}

export interface FoundCharges {
  readonly charges: readonly PostedCharge[]
  /** The last charge that was looked at, where `lookedAtMost` ended the search before enough were found; else null. */
  readonly stoppedAt: ChargePlace | null
}

/**
 * Finds the newest charges, at most `limit`, by the index of each day's partition. Where few of them are of the key or model that is asked
 * for, it stops after `lookedAtMost`, so that a page costs the same whatever is asked for.
 */
export async function findCharges(
  db: Queryable,
  { organizationId, startMs, endMs, keyId, model, after }: ChargeQuestion,
  limit: number,
  lookedAtMost: number,
): Promise<FoundCharges> {
  const rows = await db.query<ChargeRow & { readonly is_asked: boolean; readonly number: bigint }>(
    `select * from (
       select ${COLUMNS}, row_number() over (order by admitted_at desc, id) as number,
         ($4::uuid is null or key_id = $4::uuid) and ($5::text is null or model = any($5::text::text[]))
           and ($10::text is null or tier = $10::text) as is_asked
       from (
         select * from named_charges
         where organization_id = $1::uuid and admitted_at >= $2::timestamptz and admitted_at < $3::timestamptz
           and ($6::timestamptz is null or admitted_at < $6::timestamptz or id > $7::uuid)
         order by admitted_at desc, id limit $9::integer
       ) c
     ) numbered where is_asked or number = $9::integer order by admitted_at desc, id limit $8::integer`,
    [
      organizationId,
      toTimestamp(startMs),
      toTimestamp(endBehind(endMs, after)),
      keyId,
      model === null ? null : arrayLiteral(model.models),
      after === null ? null : toTimestamp(after.admittedAtMs),
      after?.id ?? null,
      limit,
      lookedAtMost,
      model?.tier ?? null,
    ],
  )
  const charges = rows.filter(({ is_asked }) => is_asked).map(toCharge)
  const last = rows.at(-1)
  const stoppedAt = last?.number === BigInt(lookedAtMost) ? toCharge(last) : null
  return { charges, stoppedAt }
}

/** The index is entered here: a page far down the list costs what the first one does. */
function endBehind(endMs: number, after: ChargePlace | null): number {
  return after === null ? endMs : Math.min(endMs, after.admittedAtMs + 1)
}

/** Returns the oldest charges of a window behind `after`, by the index of each day's partition. */
export async function selectPostedCharges(
  db: Queryable,
  { organizationId, admitted, posted }: PostedWindow,
  after: ChargePlace | null,
  limit: number,
): Promise<PostedCharge[]> {
  const fromMs = Math.max(admitted.startMs, after?.admittedAtMs ?? admitted.startMs)
  const parameters: SqlParameter[] = [
    organizationId,
    toTimestamp(fromMs),
    toTimestamp(admitted.endMs),
    toTimestamp(posted.startMs),
    toTimestamp(posted.endMs),
    limit,
  ]
  // The index is read from its end, and has no ids: those of one millisecond are sorted, and fall as in lists read backwards.
  const rows = await db.query<ChargeRow>(
    `select ${COLUMNS} from named_charges
     where organization_id = $1::uuid and admitted_at >= $2::timestamptz and admitted_at < $3::timestamptz
       and posted_at >= $4::timestamptz and posted_at < $5::timestamptz
       ${after === null || after.admittedAtMs < fromMs ? '' : 'and (admitted_at > $2::timestamptz or id < $7::uuid)'}
     order by admitted_at, id desc limit $6::integer`,
    after === null || after.admittedAtMs < fromMs ? parameters : [...parameters, after.id],
  )
  return rows.map(toCharge)
}

/** Returns whether an organization has the charge of a place. */
export async function hasCharge(
  db: Queryable,
  organizationId: string,
  { id, admittedAtMs }: ChargePlace,
): Promise<boolean> {
  const rows = await db.query<{ id: string }>(
    'select id from charges where admitted_at = $1::timestamptz and id = $2::uuid and organization_id = $3::uuid',
    [toTimestamp(admittedAtMs), id, organizationId],
  )
  return rows.length > 0
}

/** The newest charges of an organization within a window and behind a place, by the index of each day's partition in it. */
export async function selectCharges(
  db: Queryable,
  organizationId: string,
  { startMs, endMs, limit }: ChargeWindow,
  after: ChargePlace | null,
): Promise<ListedCharge[]> {
  const rows = await db.query<ChargeRow & { readonly target: string }>(
    `select ${COLUMNS}, target from named_charges
     where organization_id = $1::uuid and admitted_at >= $2::timestamptz and admitted_at < $3::timestamptz
       and ($5::timestamptz is null or admitted_at < $5::timestamptz or id > $6::uuid)
     order by admitted_at desc, id limit $4::integer`,
    [
      organizationId,
      toTimestamp(startMs),
      toTimestamp(endBehind(endMs, after)),
      limit,
      after === null ? null : toTimestamp(after.admittedAtMs),
      after?.id ?? null,
    ],
  )
  return rows.map((row) => ({ ...toCharge(row), target: row.target }))
}

function toCharge(row: ChargeRow): PostedCharge {
  return {
    id: row.id,
    admittedAtMs: row.admitted_at.getTime(),
    postedAtMs: row.posted_at.getTime(),
    keyId: row.key_id,
    model: row.model,
    tier: row.tier,
    modality: row.modality,
    promptTokens: row.prompt_tokens,
    cachedPromptTokens: row.cached_prompt_tokens,
    completionTokens: row.completion_tokens,
    imageCount: row.images,
    videoSeconds: row.seconds,
    rented: rentedOf(row),
    estimated: row.estimated,
    costMicrocents: row.cost_microcents,
    isCovered: row.is_covered,
    outcome: row.outcome,
  }
}

function rentedOf({ instance_id: instanceId, gpu_count: gpuCount, instance_seconds: seconds }: ChargeRow) {
  return instanceId === null || gpuCount === null || seconds === null ? null : { instanceId, gpuCount, seconds }
}
