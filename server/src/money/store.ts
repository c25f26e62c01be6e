/** Every query on charges, ledger entries, rollups, price versions and process slots. Grants: `accounts/store.ts`. */

import { arrayLiteral, type Queryable, type Transaction } from '../io/postgres/database.ts'
import { toHex } from '../kernel/ids.ts'
import { DAY_MS, toTimestamp, utcDay } from '../kernel/time.ts'
import type { Books } from './books.ts'
import type { Charge } from './charge.ts'

/** Opens an organization's account with nothing in it; does nothing where it is open already. */
export async function openAccount(db: Queryable, organizationId: string): Promise<void> {
  await db.query(
    // Nobody is told that an account is empty which never had anything: as if that had been done.
    `insert into accounts (organization_id, balance_microcents, told_below_microcents, new_until)
     select id, 0, 0, case when standing = 'new' and first_paid_at is null then created_at + interval '7 days' end
     from organizations where id = $1::uuid
     on conflict (organization_id) do nothing`,
    [organizationId],
  )
}

/** The exact balance: what the account holds less the charges that processes have posted and not yet folded in. */
export async function readAccountBalance(db: Queryable, organizationId: string): Promise<bigint | null> {
  const rows = await db.query<{ balance: bigint }>(
    `select (a.balance_microcents - coalesce(
       (select sum(s.spent_microcents) from spent_slices s where s.organization_id = a.organization_id), 0))::bigint as balance
     from accounts a where a.organization_id = $1::uuid`,
    [organizationId],
  )
  return rows[0]?.balance ?? null
}

/**
 * Adds a movement to the ledger and to the balance. False when its source was posted before: nothing changes then.
 */
export async function postLedgerEntry(
  tx: Transaction,
  entry: {
    readonly id: string
    readonly organizationId: string
    readonly amountMicrocents: bigint
    readonly kind: 'credit' | 'refund' | 'adjustment'
    readonly source: string
    readonly note: string | null
    readonly postedAtMs: number
  },
): Promise<boolean> {
  const inserted = await tx.query(
    `insert into ledger_entries (id, organization_id, amount_microcents, kind, source, note, posted_at)
     values ($1::uuid, $2::uuid, $3::bigint, $4, $5, $6, $7::timestamptz)
     on conflict (source) do nothing returning id`,
    [
      entry.id,
      entry.organizationId,
      entry.amountMicrocents,
      entry.kind,
      entry.source,
      entry.note,
      toTimestamp(entry.postedAtMs),
    ],
  )
  if (inserted.length === 0) return false
  await tx.query(
    // A payment that lifts the balance above where it was told to be low: the next fall is told again.
    `update accounts set balance_microcents = balance_microcents + $2::bigint,
       told_below_microcents = case when balance_microcents + $2::bigint < told_below_microcents then told_below_microcents end
     where organization_id = $1::uuid`,
    [entry.organizationId, entry.amountMicrocents],
  )
  return true
}

/**
 * Posts a batch of charges: the rows, what this slot has spent by minute, its sums by hour and day, and where plans cover
 * some of them its rows of the plans' meters, in one statement
 * and so in one transaction. A charge that is there already is left alone and counted nowhere again, which makes the
 * statement safe to repeat whatever became of an earlier try. Only rows of this slot are updated: no two processes
 * ever wait for each other here.
 */
export async function postCharges(
  db: Queryable,
  slot: number,
  charges: readonly Charge[],
  postedAtMs: number,
): Promise<void> {
  const column = (pick: (charge: Charge) => string | number | bigint | boolean | null): string =>
    arrayLiteral(charges.map(pick))
  const parameters = [
    column((c) => toTimestamp(c.admittedAtMs)),
    column((c) => c.chargeId),
    column((c) => c.organizationId),
    column((c) => c.keyId),
    column((c) => c.model),
    column((c) => c.tier),
    column((c) => toHex(c.priceHash)),
    column((c) => c.usage.promptTokens),
    column((c) => c.usage.cachedPromptTokens),
    column((c) => c.usage.completionTokens),
    column((c) => c.estimated),
    column((c) => c.costMicrocents),
    column((c) => c.target),
    column((c) => c.outcome),
    toTimestamp(postedAtMs),
    slot,
  ]
  const parts: Parts[] = []
  if (charges.some(({ metered }) => metered !== undefined)) {
    parts.push(planParts(parameters.length + 1))
    parameters.push(
      column((c) => (c.cover === undefined ? null : toTimestamp(c.cover.periodStartMs))),
      column((c) => c.cover?.factorThousandths ?? null),
      column((c) => c.metered?.inputTokens ?? null),
      column((c) => c.metered?.outputTokens ?? null),
      column((c) => c.metered?.listMicrocents ?? null),
    )
  }
  if (charges.some(({ modality }) => modality !== undefined)) {
    parts.push(modalityParts(parameters.length + 1))
    parameters.push(
      column((c) => c.modality ?? null),
      column((c) => c.images?.count ?? null),
      column((c) => c.images?.pixels ?? null),
      column((c) => c.videoSeconds ?? null),
    )
  }
  await db.query(parts.length === 0 ? POST_CHAT : postingWith(parts), parameters)
}

/** What the statement has beside the ordinary, for charges of the batch that need it. */
interface Parts {
  /** Of `charges`, each with a comma before it. */
  readonly columns: string
  readonly arrays: string
  readonly meters: string
  /** Sums of an hour's rollup beside the ordinary. */
  readonly sums: readonly string[]
}

/** Where plans cover some; `at` is the number of its first parameter. */
const planParts = (at: number): Parts => ({
  sums: [],
  columns: ', plan_period, plan_factor, plan_input_tokens, plan_output_tokens, list_microcents',
  arrays: `, $${at}::text::timestamptz[], $${at + 1}::text::integer[], $${at + 2}::text::bigint[],
      $${at + 3}::text::bigint[], $${at + 4}::text::bigint[]`,
  meters: `, metered_periods as (
    insert into plan_periods as p (organization_id, period_start, slot, input_tokens, output_tokens, list_microcents)
    select organization_id, plan_period, $16::integer, sum(plan_input_tokens), sum(plan_output_tokens),
      sum(list_microcents)
    from inserted where plan_period is not null group by 1, 2
    on conflict (organization_id, period_start, slot) do update set
      input_tokens = p.input_tokens + excluded.input_tokens,
      output_tokens = p.output_tokens + excluded.output_tokens,
      list_microcents = p.list_microcents + excluded.list_microcents
  ), metered_hours as (
    insert into plan_hours as h (organization_id, hour, period_start, slot, requests, input_tokens, output_tokens,
      list_microcents)
    select organization_id, date_bin('1 hour', admitted_at, 'epoch'), plan_period, $16::integer, count(*),
      sum(plan_input_tokens), sum(plan_output_tokens), sum(list_microcents)
    from inserted where plan_period is not null group by 1, 2, 3
    on conflict (organization_id, hour, period_start, slot) do update set
      requests = h.requests + excluded.requests,
      input_tokens = h.input_tokens + excluded.input_tokens,
      output_tokens = h.output_tokens + excluded.output_tokens,
      list_microcents = h.list_microcents + excluded.list_microcents
  )`,
})

/** Where some are for something else than chat; `at` is the number of its first parameter. */
const modalityParts = (at: number): Parts => ({
  columns: ', modality, image_count, image_pixels, video_seconds',
  arrays: `, $${at}::text::text[], $${at + 1}::text::integer[], $${at + 2}::text::bigint[], $${at + 3}::text::integer[]`,
  meters: '',
  sums: ['image_count', 'video_seconds'],
})

/** The texts are few, so that each is prepared once. */
function postingWith(parts: readonly Parts[]): string {
  const joined = (pick: (part: Parts) => string) => parts.map(pick).join('')
  const columns = joined((part) => part.columns)
  const arrays = joined((part) => part.arrays)
  const meters = joined((part) => part.meters)
  const sums = parts.flatMap((part) => part.sums)
  const names = sums.map((name) => `, ${name}`).join('')
  return `
  with inserted as (
    insert into charges (admitted_at, id, organization_id, key_id, model, tier, price_hash, prompt_tokens,
      cached_prompt_tokens, completion_tokens, estimated, cost_microcents, target, outcome, posted_at${columns})
    select c.admitted_at, c.id, c.organization_id, c.key_id, c.model, c.tier, decode(c.price_hash, 'hex'),
      c.prompt_tokens, c.cached_prompt_tokens, c.completion_tokens, c.estimated, c.cost_microcents, c.target,
      c.outcome, $15::timestamptz${columns}
    from unnest($1::text::timestamptz[], $2::text::uuid[], $3::text::uuid[], $4::text::uuid[], $5::text::text[],
      $6::text::text[], $7::text::text[], $8::text::bigint[], $9::text::bigint[], $10::text::bigint[],
      $11::text::boolean[], $12::text::bigint[], $13::text::text[], $14::text::text[]${arrays})
      as c (admitted_at, id, organization_id, key_id, model, tier, price_hash, prompt_tokens, cached_prompt_tokens,
        completion_tokens, estimated, cost_microcents, target, outcome${columns})
    on conflict (admitted_at, id) do nothing
    returning organization_id, admitted_at, model, tier, key_id, prompt_tokens, cached_prompt_tokens,
      completion_tokens, cost_microcents${columns}
  ), spent as (
    insert into spent_slices as s (organization_id, slot, minute, spent_microcents)
    select organization_id, $16::integer, date_bin('1 minute', admitted_at, 'epoch'), sum(cost_microcents)
    from inserted group by 1, 3 having sum(cost_microcents) > 0
    on conflict (organization_id, slot, minute) do update set spent_microcents = s.spent_microcents + excluded.spent_microcents
  ), hours as (
    select organization_id, date_bin('1 hour', admitted_at, 'epoch') as hour, model, tier, key_id, count(*) as requests,
      sum(prompt_tokens) as prompt_tokens, sum(cached_prompt_tokens) as cached_prompt_tokens,
      sum(completion_tokens) as completion_tokens, sum(cost_microcents) as cost_microcents
      ${sums.map((name) => `, coalesce(sum(${name}), 0) as ${name}`).join('')}
    from inserted group by 1, 2, 3, 4, 5
  ), days as (
    insert into usage_days as d (organization_id, day, slot, requests, cost_microcents)
    select organization_id, date_bin('1 day', hour, 'epoch'), $16::integer, sum(requests), sum(cost_microcents)
    from hours group by 1, 2
    on conflict (organization_id, day, slot) do update set
      requests = d.requests + excluded.requests,
      cost_microcents = d.cost_microcents + excluded.cost_microcents
  )${meters}
  insert into usage_rollups as r (organization_id, hour, model, tier, key_id, slot, requests, prompt_tokens,
    cached_prompt_tokens, completion_tokens, cost_microcents${names})
  select organization_id, hour, model, tier, key_id, $16::integer, requests, prompt_tokens, cached_prompt_tokens,
    completion_tokens, cost_microcents${names}
  from hours
  on conflict (organization_id, hour, model, tier, key_id, slot) do update set
    requests = r.requests + excluded.requests,
    prompt_tokens = r.prompt_tokens + excluded.prompt_tokens,
    cached_prompt_tokens = r.cached_prompt_tokens + excluded.cached_prompt_tokens,
    completion_tokens = r.completion_tokens + excluded.completion_tokens,
    cost_microcents = r.cost_microcents + excluded.cost_microcents
    ${sums.map((name) => `, ${name} = r.${name} + excluded.${name}`).join('')}`
}

/** What nearly every batch is posted by. */
const POST_CHAT = postingWith([])

/** Keeps a charge that the database refuses, for an operator to look at. */
export async function buryCharge(db: Queryable, charge: Charge, reason: string, failedAtMs: number): Promise<void> {
  const kept = JSON.stringify(charge, (_, value) => {
    if (value instanceof Uint8Array) return toHex(value)
    // What jsonb can't hold: it would refuse the charge a second time.
    if (typeof value === 'string') return value.replaceAll('\0', '\uFFFD').toWellFormed()
    return typeof value === 'bigint' ? value.toString() : value
  })
  await db.query(
    `insert into dead_charges (id, charge, reason, failed_at) values ($1::uuid, $2::text::jsonb, $3, $4::timestamptz)
     on conflict (id) do nothing`,
    [charge.chargeId, kept, reason, toTimestamp(failedAtMs)],
  )
}

/** Makes sure that charges admitted on the UTC day of `epochMs` have a partition, also when others do at the same time. */
export async function ensureChargePartition(db: Queryable, epochMs: number): Promise<void> {
  const day = utcDay(epochMs)
  const next = utcDay(epochMs + DAY_MS)
  // `if not exists` looks before it locks: of several processes at once all but one would fail.
  await db.query(
    `do $$ begin
       create table if not exists charges_${day.replaceAll('-', '')} partition of charges
         for values from ('${day}T00:00:00Z') to ('${next}T00:00:00Z');
     exception when duplicate_table or unique_violation then null;
     end $$`,
  )
}

/** Stores a price version, so that every charge that cites it can be recomputed. */
export async function storePriceVersion(db: Queryable, hash: Uint8Array, json: string, atMs: number): Promise<void> {
  await db.query(
    `insert into price_versions (hash, price, first_seen_at) values (decode($1, 'hex'), $2::text::jsonb, $3::timestamptz)
     on conflict (hash) do nothing`,
    [toHex(hash), json, toTimestamp(atMs)],
  )
}

/** Takes an advisory lock until the end of the transaction, if nobody has it. */
export async function lockForTransaction(tx: Transaction, lockClass: number, id: number): Promise<boolean> {
  const rows = await tx.query<{ done: boolean }>('select pg_try_advisory_xact_lock($1::int4, $2::int4) as done', [
    lockClass,
    id,
  ])
  return rows[0]?.done === true
}

/** Slots that were ever used, lowest first. */
export async function listSlots(db: Queryable): Promise<number[]> {
  const rows = await db.query<{ slot: number }>('select slot from processes order by slot')
  return rows.map((row) => row.slot)
}

/** Takings of a slot, each named by its instant in milliseconds. */
export interface SlotTaken {
  readonly takenAtMs: number
  /** The taking before; null: nobody ever had it. */
  readonly beforeMs: number | null
}

/**
 * Notes that a process has taken a slot. The instant that is noted is later than that of anyone who had it before,
 * whatever their clocks say: it names this taking. To be run on the connection that has the slot's lock: without
 * the lock there is no connection either, and nobody takes a slot that is another's by now.
 */
export async function takeSlot(session: Queryable, slot: number, atMs: number): Promise<SlotTaken> {
  const rows = await session.query<{ started_at: Date; before: Date | null }>(
    `with before as (select started_at from processes where slot = $1::integer)
     insert into processes as p (slot, started_at) values ($1::integer, $2::timestamptz)
     on conflict (slot) do update set started_at = greatest(excluded.started_at, p.started_at + interval '1 millisecond')
     returning started_at, (select started_at from before) as before`,
    [slot, toTimestamp(atMs)],
  )
  return { takenAtMs: rows[0]?.started_at.getTime() ?? atMs, beforeMs: rows[0]?.before?.getTime() ?? null }
}

export interface Imbalance extends Books {
  readonly organization_id: string
}

/** Accounts whose books disagree: the ledger less all charges against balance, allotments, and what is allotted and held. */
export async function findImbalances(db: Queryable): Promise<Imbalance[]> {
  return db.query(
    `with booked as (
       select a.organization_id,
         coalesce((select sum(amount_microcents) from ledger_entries e where e.organization_id = a.organization_id), 0)
         - coalesce((select sum(cost_microcents) from charges c where c.organization_id = a.organization_id), 0) as booked,
         a.balance_microcents - coalesce((select sum(spent_microcents) from spent_slices s
           where s.organization_id = a.organization_id), 0) as kept,
         a.allotted_microcents as allotted,
         coalesce((select sum(granted_microcents) from allotments l
           where l.organization_id = a.organization_id), 0) as granted,
         a.held_microcents as reserved, coalesce((select sum(amount_microcents) from holds h
           where h.organization_id = a.organization_id), 0) as held
       from accounts a
     )
     select organization_id, booked::bigint, kept::bigint, allotted::bigint, granted::bigint, reserved, held::bigint
     from booked where booked <> kept or allotted <> granted or reserved <> held`,
  )
}

/** When the database server was started, by its own clock, in milliseconds since the epoch. */
export async function readServerStart(db: Queryable): Promise<number> {
  const rows = await db.query<{ started_at: Date }>('select pg_postmaster_start_time() as started_at')
  return rows[0]?.started_at.getTime() ?? 0
}

/** What a charge came to and whom it was charged to; null when there is none of this id, or its day was dropped. */
export async function findCharge(
  db: Queryable,
  chargeId: string,
  admittedAtMs: number,
): Promise<{ organizationId: string; costMicrocents: bigint } | null> {
  const rows = await db.query<{ organization_id: string; cost: bigint }>(
    `select organization_id, cost_microcents as cost from charges
     where admitted_at = $1::timestamptz and id = $2::uuid`,
    [toTimestamp(admittedAtMs), chargeId],
  )
  const row = rows[0]
  return row === undefined ? null : { organizationId: row.organization_id, costMicrocents: row.cost }
}
