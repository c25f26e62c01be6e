/** Fills a migrated, empty database with books that agree. Everything is written as gateways would have left it behind. */

import { ensureChargePartition } from '../../src/billing/charges/partitions/prepare.ts'
import { storePriceVersions } from '../../src/billing/charges/prices/store.ts'
import { POSTED_GRACE_MS } from '../../src/billing/statements/closing/closeDays.ts'
import { closeMonths } from '../../src/billing/statements/closing/closeMonths.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { toHex } from '../../src/lib/ids.ts'
import { DAY_MS, HOUR_MS, toTimestamp, utcDay } from '../../src/lib/time.ts'
import {
  type BooksSize,
  CREDIT_MICROCENTS,
  FILLED_MODELS,
  FILLED_PRICE,
  FILLED_PRICE_HASH,
  type FilledDay,
  filledDays,
  INPUT_TOKEN_MICROCENTS,
  KEY_ID,
  KEY_TEXT,
  ORGANIZATION_ID,
  OUTPUT_TOKEN_MICROCENTS,
  SPREAD,
} from './books.ts'

/** Organizations that one statement inserts. */
const ORGANIZATIONS_AT_ONCE = 100_000

/** The slot that has posted all of it. Its process has ended, and everything of it is folded. */
const FILLED_SLOT = 0

/**
 * Fills the database. `database` belongs to the role of the gateways, and its statements may take minutes. The days end at `nowMs`, in
 * milliseconds since the epoch. All days of the past are closed and verified, so that a gateway finds no work of the past.
 */
export async function fillBooks(database: Database, size: BooksSize, nowMs: number): Promise<void> {
  const days = filledDays(size, nowMs)
  const firstMs = days[0]?.startMs ?? nowMs
  await insertOrganizations(database, size.organizations, firstMs - HOUR_MS)
  const models = await insertPrices(database, firstMs)
  const sumUp = async ({ startMs }: FilledDay) => {
    await insertUsage(database, startMs)
    if (startMs + DAY_MS + POSTED_GRACE_MS <= nowMs) await closeDay(database, startMs, nowMs)
  }
  // A day is summed up while the charges of the next one are inserted: so PostgreSQL has work for two processors.
  for (const [index, day] of days.entries()) {
    const before = days[index - 1]
    await Promise.all([insertCharges(database, day, size.organizations, models), before && sumUp(before)])
  }
  const last = days.at(-1)
  if (last !== undefined) await sumUp(last)
  for (let ahead = 1; ahead <= 2; ahead += 1) await ensureChargePartition(database, nowMs + ahead * DAY_MS)
  await insertAccounts(database, nowMs)
  await database.query(
    `insert into processes (slot, started_at) values ($1::integer, $2::timestamptz) on conflict do nothing`,
    [FILLED_SLOT, toTimestamp(firstMs)],
  )
  await database.query('insert into slot_charges (slot, charges) values ($1::integer, $2::bigint)', [
    FILLED_SLOT,
    size.charges,
  ])
  await noteVerifiedDays(database, days, nowMs)
  await database.query('analyze')
  await closeMonths(database, nowMs)
  await database.query('vacuum analyze')
}

/** Organizations with a key and a grant each. */
async function insertOrganizations(database: Database, count: number, atMs: number): Promise<void> {
  for (let first = 1; first <= count; first += ORGANIZATIONS_AT_ONCE) {
    const window = [first, Math.min(count, first + ORGANIZATIONS_AT_ONCE - 1), toTimestamp(atMs)]
    await database.query(
      `insert into organizations (id, name, standing, created_at)
       select ${ORGANIZATION_ID('n')}, 'scale ' || n, 'established', $3::timestamptz from generate_series($1::bigint, $2::bigint) n`,
      window,
    )
    await database.query(
      `insert into api_keys (id, organization_id, hash, scopes, admin, created_at)
       select ${KEY_ID('n')}, ${ORGANIZATION_ID('n')}, sha256(convert_to(${KEY_TEXT('n')}, 'utf8')), 'full_access', true, $3::timestamptz
       from generate_series($1::bigint, $2::bigint) n`,
      window,
    )
    await database.query(
      `insert into ledger_entries (id, organization_id, amount_microcents, kind, source, posted_at)
       select gen_random_uuid(), ${ORGANIZATION_ID('n')}, $4::bigint, 'credit', 'scale:' || n, $3::timestamptz
       from generate_series($1::bigint, $2::bigint) n`,
      [...window, CREDIT_MICROCENTS],
    )
  }
}

/** Stores the price; returns the rows of `served_models` that cite it. */
async function insertPrices(database: Database, atMs: number): Promise<number[]> {
  await storePriceVersions(database, [{ price: FILLED_PRICE, priceHash: FILLED_PRICE_HASH }], atMs)
  const ids: number[] = []
  for (const model of FILLED_MODELS) {
    const [row] = await database.query<{ id: number }>(
      `insert into served_models (model, tier, price_hash, target)
       values ($1, 'serverless', decode($2, 'hex'), $3) returning id`,
      [`svc/${model}`, toHex(FILLED_PRICE_HASH), `mock/${model}`],
    )
    if (row !== undefined) ids.push(row.id)
  }
  return ids
}

/** The charges of a day, in the order of time. */
async function insertCharges(
  database: Database,
  { startMs, from, to, spanMs }: FilledDay,
  organizations: number,
  models: readonly number[],
): Promise<void> {
  await ensureChargePartition(database, startMs)
  await database.query(
    `insert into charges (admitted_at, id, organization_id, key_id, served_model, prompt_tokens, cached_prompt_tokens,
       completion_tokens, estimated, cost_microcents, outcome, posted_at)
     select $1::timestamptz + at * interval '1 ms', gen_random_uuid(), ${ORGANIZATION_ID('n')}, ${KEY_ID('n')},
       ($2::text::integer[])[1 + i % ${models.length}], prompt, 0, completion, false,
       prompt * ${INPUT_TOKEN_MICROCENTS} + completion * ${OUTPUT_TOKEN_MICROCENTS}, 'completed',
       $1::timestamptz + (at + 20) * interval '1 ms'
     from (
       select i, (i * ${SPREAD}) % $5::bigint + 1 as n, 50 + i % 200 as prompt, 100 + i % 300 as completion,
         (i - $3::bigint) * $6::bigint / ($4::bigint - $3::bigint) as at
       from generate_series($3::bigint, $4::bigint - 1) i
     ) as made order by i`,
    [toTimestamp(startMs), `{${models.join(',')}}`, from, to, organizations, spanMs],
  )
}

/** The hours and days that a day's charges add up to. */
async function insertUsage(database: Database, startMs: number): Promise<void> {
  const window = [toTimestamp(startMs), toTimestamp(startMs + DAY_MS)]
  // In the order of time, as processes write them: the index by hour is of blocks of the table.
  await database.query(
    `insert into usage_hours (organization_id, hour, model, tier, key_id, slot, requests, prompt_tokens, cached_prompt_tokens,
       completion_tokens, cost_microcents)
     select organization_id, date_bin('1 hour', admitted_at, 'epoch') as hour, model, tier, key_id, ${FILLED_SLOT}, count(*),
       sum(prompt_tokens), sum(cached_prompt_tokens), sum(completion_tokens), sum(cost_microcents)
     from named_charges where admitted_at >= $1::timestamptz and admitted_at < $2::timestamptz
     group by organization_id, hour, model, tier, key_id order by hour`,
    window,
  )
  await database.query(
    `insert into usage_days (organization_id, day, slot, requests, cost_microcents)
     select organization_id, $1::timestamptz, ${FILLED_SLOT}, count(*), sum(cost_microcents)
     from charges where admitted_at >= $1::timestamptz and admitted_at < $2::timestamptz group by organization_id`,
    window,
  )
}

/**
 * Closes a day, as `closeDays` does. That one looks through all partitions for charges that were posted on the day; here each was posted on
 * the day of its admission.
 */
async function closeDay(database: Database, startMs: number, nowMs: number): Promise<void> {
  await database.query(
    `insert into posted_sums (organization_id, posted_day, admitted_day, model, tier, charges, cost_microcents)
     select organization_id, (posted_at at time zone 'UTC')::date, (admitted_at at time zone 'UTC')::date, model, tier, count(*),
       sum(cost_microcents)
     from named_charges where admitted_at >= $1::timestamptz and admitted_at < $2::timestamptz group by 1, 2, 3, 4, 5`,
    [toTimestamp(startMs), toTimestamp(startMs + DAY_MS)],
  )
  await database.query('insert into closed_days (day, closed_at) values ($1::date, $2::timestamptz)', [
    utcDay(startMs),
    toTimestamp(nowMs),
  ])
}

/** Accounts of which every charge is folded in. */
async function insertAccounts(database: Database, nowMs: number): Promise<void> {
  await database.query(
    `insert into accounts (organization_id, balance_microcents, day, day_spent_microcents, month, month_spent_microcents)
     select o.id, $1::bigint - coalesce(d.spent, 0), $2::date, coalesce(d.today, 0), date_trunc('month', $2::date)::date,
       coalesce(d.this_month, 0)
     from organizations o left join (
       select organization_id, sum(cost_microcents) as spent,
         sum(cost_microcents) filter (where day >= $2::date::timestamptz) as today,
         sum(cost_microcents) filter (where day >= date_trunc('month', $2::date::timestamptz)) as this_month
       from usage_days group by 1
     ) d on d.organization_id = o.id order by o.id`,
    [CREDIT_MICROCENTS, utcDay(nowMs)],
  )
}

async function noteVerifiedDays(database: Database, days: readonly FilledDay[], nowMs: number): Promise<void> {
  for (const { startMs } of days) {
    if (startMs + DAY_MS > nowMs) continue
    await database.query(
      `insert into verified_days (day, started_at, verified_at) values ($1::date, $2::timestamptz, $2::timestamptz)`,
      [utcDay(startMs), toTimestamp(nowMs)],
    )
  }
}
