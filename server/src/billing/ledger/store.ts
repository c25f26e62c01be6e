/** The queries of verification: on everything in the books, a bounded piece at a time. */

import { arrayLiteral, type Queryable } from '../../infra/postgres/database.ts'
import type { MeteredSums, RollupSums } from '../../lib/disagreement.ts'
import { DAY_MS, HOUR_MS, toTimestamp } from '../../lib/time.ts'
import type { Books } from '../charges/books.ts'
import type { InstanceUsage } from '../charges/charge.ts'

/** Days of whose charges there is a partition, oldest first, as `YYYY-MM-DD`. */
export async function listChargeDays(db: Queryable): Promise<string[]> {
  const rows = await db.query<{ day: string }>(
    `select to_char(to_date(substring(c.relname from 'charges_(\\d{8})$'), 'YYYYMMDD'), 'YYYY-MM-DD') as day
     from pg_inherits i join pg_class c on c.oid = i.inhrelid
     where i.inhparent = 'charges'::regclass and c.relname ~ '^charges_\\d{8}$' order by 1`,
  )
  return rows.map(({ day }) => day)
}

/** Returns how often retention has dropped a day; 0: never. */
export async function timesDropped(db: Queryable, day: string): Promise<number> {
  const rows = await db.query<{ times: number }>('select times from dropped_days where day = $1::date', [day])
  return rows[0]?.times ?? 0
}

/** Days that were ever dropped, oldest first. */
export async function listDroppedDays(db: Queryable): Promise<string[]> {
  const rows = await db.query<{ day: string }>(
    `select to_char(day, 'YYYY-MM-DD') as day from dropped_days order by day`,
  )
  return rows.map(({ day }) => day)
}

/** An account and its books, in one snapshot. */
export interface AccountBooks extends Books {
  readonly organizationId: string
}

/**
 * A page of accounts in the order of their ids, after `afterId`. Charges are summed by their days' sums, which are held against the
 * charges day by day. Entries of the kind `charges` stand for dropped charges, whose days' sums stay: they would count twice here.
 */
export async function readAccountBooks(db: Queryable, afterId: string, limit: number): Promise<AccountBooks[]> {
  const rows = await db.query<Books & { readonly organization_id: string }>(
    `select a.organization_id, (e.sum - d.sum)::bigint as booked, (a.balance_microcents - s.spent)::bigint as kept,
       a.shares_microcents as granted, l.granted::bigint as shares, a.held_microcents as held,
       h.held::bigint as holds
     from (select * from accounts where organization_id > $1::uuid order by organization_id limit $2::integer) a
     cross join lateral (select coalesce(sum(amount_microcents), 0) as sum from ledger_entries
       where organization_id = a.organization_id and kind <> 'charges') e
     cross join lateral (select coalesce(sum(cost_microcents), 0) as sum from usage_days
       where organization_id = a.organization_id) d
     cross join lateral (select coalesce(sum(granted_microcents), 0) as granted
       from account_shares where organization_id = a.organization_id) l
     cross join lateral (select coalesce(sum(amount_microcents), 0) as held
       from holds where organization_id = a.organization_id) h
     cross join lateral (select coalesce(sum(spent_microcents), 0) as spent
       from unfolded_spend where organization_id = a.organization_id) s
     order by a.organization_id`,
    [afterId, limit],
  )
  return rows.map(({ organization_id, ...books }) => ({ organizationId: organization_id, ...books }))
}

/** A charge, as far as its cost can be recomputed from it. */
export interface ChargeRow {
  readonly id: string
  readonly admittedAtMs: number
  readonly organizationId: string
  /** Hex. */
  readonly priceHash: string
  readonly promptTokens: bigint
  readonly cachedPromptTokens: bigint
  readonly completionTokens: bigint
  /** Null: chat. */
  readonly modality: 'embedding' | 'image' | 'video' | 'instance' | null
  readonly imageCount: number
  readonly imagePixels: bigint
  readonly videoSeconds: number
  readonly instance: Pick<InstanceUsage, 'gpuCount' | 'fromSecond' | 'seconds'>
  readonly costMicrocents: bigint
  /** The price of its usage when the charge was cut to its hold; null when it costs its price. */
  readonly listMicrocents: bigint | null
  /** Where a plan covers it: the usage factor in thousandths, and what it counts on the plan's meter. */
  readonly cover: { readonly factorThousandths: number; readonly metered: MeteredSums } | null
}

/** A page of charges from `from` on and before `beforeMs`, in the order of their key. */
export async function readCharges(
  db: Queryable,
  from: { readonly admittedAtMs: number; readonly id: string },
  beforeMs: number,
  limit: number,
): Promise<ChargeRow[]> {
  const rows = await db.query<{
    id: string
    admitted_at: Date
    organization_id: string
    price_hash: string
    prompt: bigint
    cached: bigint
    completion: bigint
    modality: 'embedding' | 'image' | 'video' | 'instance' | null
    images: number
    pixels: bigint
    seconds: number
    gpus: number
    from_second: bigint
    instance_seconds: number
    cost: bigint
    factor: number | null
    plan_input: bigint
    plan_output: bigint
    list: bigint | null
  }>(
    `select id, admitted_at, organization_id, encode(price_hash, 'hex') as price_hash, prompt_tokens as prompt,
       cached_prompt_tokens as cached, completion_tokens as completion, modality,
       coalesce(image_count, 0) as images, coalesce(image_pixels, 0) as pixels, coalesce(video_seconds, 0) as seconds,
       coalesce(gpu_count, 0) as gpus, coalesce(instance_from_second, 0) as from_second,
       coalesce(instance_seconds, 0) as instance_seconds, cost_microcents as cost, plan_factor factor,
       plan_input_tokens as plan_input, plan_output_tokens as plan_output, list_microcents as list
     from named_charges
     where admitted_at >= $1::timestamptz and admitted_at < $3::timestamptz
       and (admitted_at, id) > ($1::timestamptz, $2::uuid)
     order by admitted_at, id limit $4::integer`,
    [toTimestamp(from.admittedAtMs), from.id, toTimestamp(beforeMs), limit],
  )
  return rows.map((row) => ({
    id: row.id,
    admittedAtMs: row.admitted_at.getTime(),
    organizationId: row.organization_id,
    priceHash: row.price_hash,
    promptTokens: row.prompt,
    cachedPromptTokens: row.cached,
    completionTokens: row.completion,
    modality: row.modality,
    imageCount: row.images,
    imagePixels: row.pixels,
    videoSeconds: row.seconds,
    instance: { gpuCount: row.gpus, fromSecond: Number(row.from_second), seconds: row.instance_seconds },
    costMicrocents: row.cost,
    listMicrocents: row.factor === null ? row.list : null,
    cover:
      row.factor === null
        ? null
        : { factorThousandths: row.factor, metered: [row.plan_input, row.plan_output, row.list ?? 0n] },
  }))
}

/** The JSON of a price version by its hash in hex; null where it was never stored. */
export async function readPriceVersion(db: Queryable, hash: string): Promise<string | null> {
  const query = `select price::text as price from price_versions where hash = decode($1, 'hex')`
  const rows = await db.query<{ price: string }>(query, [hash])
  return rows[0]?.price ?? null
}

/** A rollup that does not say what the charges do. Null where one side has none. */
export interface HourDifference {
  readonly organizationId: string
  readonly model: string
  readonly tier: string
  readonly keyId: string
  readonly charged: RollupSums | null
  readonly rolledUp: RollupSums | null
}

/** Holds the charges of one hour against its rollups, all slots together; at most `limit` that differ. */
export async function compareHour(db: Queryable, hourMs: number, limit: number): Promise<HourDifference[]> {
  const rows = await db.query<{
    organization_id: string
    model: string
    tier: string
    key_id: string
    charged: string[] | null
    rolled_up: string[] | null
  }>(
    `select organization_id, model, tier, key_id, to_json(charged) as charged, to_json(rolled_up) as rolled_up from (
       select organization_id, model, tier, key_id, array[count(*), sum(prompt_tokens), sum(cached_prompt_tokens),
         sum(completion_tokens), sum(cost_microcents), coalesce(sum(image_count), 0),
         coalesce(sum(video_seconds), 0)]::bigint[]::text[] as charged
       from named_charges where admitted_at >= $1::timestamptz and admitted_at < $2::timestamptz group by 1, 2, 3, 4
     ) c full join (
       select organization_id, model, tier, key_id, array[sum(requests), sum(prompt_tokens), sum(cached_prompt_tokens),
         sum(completion_tokens), sum(cost_microcents), sum(image_count), sum(video_seconds)]::bigint[]::text[] as rolled_up
       from usage_hours where hour = $1::timestamptz group by 1, 2, 3, 4
     ) r using (organization_id, model, tier, key_id)
     where charged is distinct from rolled_up limit $3::integer`,
    [toTimestamp(hourMs), toTimestamp(hourMs + HOUR_MS), limit],
  )
  return rows.map((row) => ({
    organizationId: row.organization_id,
    model: row.model,
    tier: row.tier,
    keyId: row.key_id,
    charged: toFigures(row.charged),
    rolledUp: toFigures(row.rolled_up),
  }))
}

function toFigures(texts: readonly string[] | null): RollupSums | null {
  if (texts === null) return null
  const [requests = '0', prompt = '0', cached = '0', completion = '0', cost = '0', images = '0', seconds = '0'] = texts
  return [
    BigInt(requests),
    BigInt(prompt),
    BigInt(cached),
    BigInt(completion),
    BigInt(cost),
    BigInt(images),
    BigInt(seconds),
  ]
}

/** An organization for which a day's sums do not agree. Micro-cents. */
export interface DayDifference {
  readonly organizationId: string
  readonly hours: bigint
  readonly days: bigint
}

/** Holds the sum of a day's hours against the day's own; at most `limit` that differ. */
export async function compareDay(db: Queryable, dayMs: number, limit: number): Promise<DayDifference[]> {
  const rows = await db.query<{ organization_id: string; hours: bigint; days: bigint }>(
    `select organization_id, coalesce(hours, 0)::bigint as hours, coalesce(days, 0)::bigint as days from (
       select organization_id, sum(cost_microcents) as hours, sum(requests) as hour_requests from usage_hours
       where hour >= $1::timestamptz and hour < $2::timestamptz group by 1
     ) h full join (
       select organization_id, sum(cost_microcents) as days, sum(requests) as day_requests from usage_days
       where day = $1::timestamptz group by 1
     ) d using (organization_id)
     where hours is distinct from days or hour_requests is distinct from day_requests limit $3::integer`,
    [toTimestamp(dayMs), toTimestamp(dayMs + DAY_MS), limit],
  )
  return rows.map(({ organization_id, hours, days }) => ({ organizationId: organization_id, hours, days }))
}

/** An organization whose dropped day does not add up. Micro-cents. */
export interface DroppedDifference {
  readonly organizationId: string
  /** The sum of the day's ledger entries, and of charges that came late and are rows still. */
  readonly kept: bigint
  readonly rolledUp: bigint
}

/** Holds the ledger entries that stand for a dropped day against its rollups; at most `limit` that differ. */
export async function compareDroppedDay(
  db: Queryable,
  dayMs: number,
  sourcePrefix: string,
  times: number,
  limit: number,
): Promise<DroppedDifference[]> {
  const rows = await db.query<{ organization_id: string; kept: bigint; rolled_up: bigint }>(
    `with rolled_up as (
       select organization_id, sum(cost_microcents) as microcents from usage_days where day = $1::timestamptz group by 1
     ), late as (
       select organization_id, sum(cost_microcents) as microcents from charges
       where admitted_at >= $1::timestamptz and admitted_at < $2::timestamptz group by 1
     ), entered as (
       select r.organization_id, sum(e.amount_microcents) as microcents
       from rolled_up r cross join generate_series(1, $4::integer) n
       join ledger_entries e on e.source = $3::text || r.organization_id || case n when 1 then '' else ':' || n end
       group by 1
     )
     select organization_id, (coalesce(l.microcents, 0) - coalesce(e.microcents, 0))::bigint as kept,
       coalesce(r.microcents, 0)::bigint as rolled_up
     from rolled_up r full join late l using (organization_id) left join entered e using (organization_id)
     where coalesce(l.microcents, 0) - coalesce(e.microcents, 0) <> coalesce(r.microcents, 0) limit $5::integer`,
    [toTimestamp(dayMs), toTimestamp(dayMs + DAY_MS), sourcePrefix, times, limit],
  )
  return rows.map((row) => ({ organizationId: row.organization_id, kept: row.kept, rolledUp: row.rolled_up }))
}

/**
 * Claims one day of `days` for verification: one that was never gone through, or whose last look, begun before
 * `againBeforeMs`, did not end or found something. Null: nothing is due. Of several processes one gets the day.
 */
export async function claimDayToVerify(
  db: Queryable,
  days: readonly string[],
  nowMs: number,
  againBeforeMs: number,
): Promise<string | null> {
  const rows = await db.query<{ day: string }>(
    `insert into verified_days as v (day, started_at)
     select day, $2::timestamptz from unnest($1::text::date[]) as d (day)
     where not exists (select from verified_days k where k.day = d.day
       and (k.started_at >= $3::timestamptz or (k.verified_at is not null and k.disagreements = 0)))
     order by day desc limit 1
     on conflict (day) do update set started_at = excluded.started_at, verified_at = null
       where v.started_at < $3::timestamptz
     returning to_char(day, 'YYYY-MM-DD') as day`,
    [arrayLiteral(days), toTimestamp(nowMs), toTimestamp(againBeforeMs)],
  )
  return rows[0]?.day ?? null
}

/** Notes what the verification of a day has found. */
export async function noteVerified(db: Queryable, day: string, disagreements: number, nowMs: number): Promise<void> {
  await db.query(
    `update verified_days set verified_at = $2::timestamptz, disagreements = $3::bigint where day = $1::date`,
    [day, toTimestamp(nowMs), disagreements],
  )
}
