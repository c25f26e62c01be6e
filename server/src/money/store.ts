/** Every query on charges, ledger entries, accounts, allotments, rollups, price versions and process slots. */

import { arrayLiteral, type Queryable, type Transaction } from '../io/postgres/database.ts'
import { toHex } from '../kernel/ids.ts'
import { DAY_MS, toTimestamp, utcDay } from '../kernel/time.ts'
import type { Charge } from './charge.ts'

/** Opens an organization's account with nothing in it; does nothing where it is open already. */
export async function openAccount(db: Queryable, organizationId: string): Promise<void> {
  await db.query(
    `insert into accounts (organization_id, balance_microcents) values ($1::uuid, 0)
     on conflict (organization_id) do nothing`,
    [organizationId],
  )
}

/** The exact balance: what the account holds less the charges that processes have posted and not yet folded in. */
export async function readAccountBalance(db: Queryable, organizationId: string): Promise<bigint | null> {
  const rows = await db.query<{ balance: bigint }>(
    `select (a.balance_microcents - coalesce(
       (select sum(l.spent_microcents) from allotments l where l.organization_id = a.organization_id), 0))::bigint as balance
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
    `update accounts set balance_microcents = balance_microcents + $2::bigint where organization_id = $1::uuid`,
    [entry.organizationId, entry.amountMicrocents],
  )
  return true
}

/**
 * Posts a batch of charges: the rows, the spent of this process's own allotments, and its rollup rows, in one statement
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
  const column = (pick: (charge: Charge) => string | number | bigint | boolean): string =>
    arrayLiteral(charges.map(pick))
  await db.query(POST_CHARGES, [
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
  ])
}

const POST_CHARGES = `
  with inserted as (
    insert into charges (admitted_at, id, organization_id, key_id, model, tier, price_hash, prompt_tokens,
      cached_prompt_tokens, completion_tokens, estimated, cost_microcents, target, outcome, posted_at)
    select c.admitted_at, c.id, c.organization_id, c.key_id, c.model, c.tier, decode(c.price_hash, 'hex'),
      c.prompt_tokens, c.cached_prompt_tokens, c.completion_tokens, c.estimated, c.cost_microcents, c.target,
      c.outcome, $15::timestamptz
    from unnest($1::text::timestamptz[], $2::text::uuid[], $3::text::uuid[], $4::text::uuid[], $5::text::text[],
      $6::text::text[], $7::text::text[], $8::text::bigint[], $9::text::bigint[], $10::text::bigint[],
      $11::text::boolean[], $12::text::bigint[], $13::text::text[], $14::text::text[])
      as c (admitted_at, id, organization_id, key_id, model, tier, price_hash, prompt_tokens, cached_prompt_tokens,
        completion_tokens, estimated, cost_microcents, target, outcome)
    on conflict (admitted_at, id) do nothing
    returning organization_id, admitted_at, model, tier, key_id, prompt_tokens, cached_prompt_tokens,
      completion_tokens, cost_microcents
  ), spent as (
    insert into allotments (organization_id, slot, granted_microcents, spent_microcents)
    select organization_id, $16::integer, 0, sum(cost_microcents) from inserted group by organization_id
    on conflict (organization_id, slot)
    do update set spent_microcents = allotments.spent_microcents + excluded.spent_microcents
  )
  insert into usage_rollups as r (organization_id, hour, model, tier, key_id, slot, requests, prompt_tokens,
    cached_prompt_tokens, completion_tokens, cost_microcents)
  select organization_id, date_bin('1 hour', admitted_at, 'epoch'), model, tier, key_id, $16::integer, count(*),
    sum(prompt_tokens), sum(cached_prompt_tokens), sum(completion_tokens), sum(cost_microcents)
  from inserted group by 1, 2, 3, 4, 5
  on conflict (organization_id, hour, model, tier, key_id, slot) do update set
    requests = r.requests + excluded.requests,
    prompt_tokens = r.prompt_tokens + excluded.prompt_tokens,
    cached_prompt_tokens = r.cached_prompt_tokens + excluded.cached_prompt_tokens,
    completion_tokens = r.completion_tokens + excluded.completion_tokens,
    cost_microcents = r.cost_microcents + excluded.cost_microcents`

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

/** What a refill did for one organization. All micro-cents. */
export interface Refilled {
  readonly organizationId: string
  /** What the process may now spend by this allotment, before its own open holds and unposted charges. */
  readonly grantedMicrocents: bigint
  /** What is left on the account for further grants. May be negative. */
  readonly roomMicrocents: bigint
}

/**
 * Folds what this slot has spent into the accounts and asks for more. One guarded update of each account row, in the
 * order of their ids so that processes never deadlock. The grant is decided on the locked row: a quarter of the free room
 * while that covers the need, so that refills are rare and other processes find room too; near the end exactly what is
 * needed, hold by hold. Call it only while no batch of this slot's charges is under way.
 */
export async function refillAllotments(
  tx: Transaction,
  slot: number,
  needs: ReadonlyMap<string, bigint>,
): Promise<Refilled[]> {
  const ids = [...needs.keys()].sort()
  const organizations = arrayLiteral(ids)
  const wanted = arrayLiteral(ids.map((id) => needs.get(id) ?? 0n))
  await tx.query(
    `insert into allotments (organization_id, slot, granted_microcents, spent_microcents)
     select id, $2::integer, 0, 0 from unnest($1::text::uuid[]) as o (id)
     on conflict (organization_id, slot) do nothing`,
    [organizations, slot],
  )
  const rows = await tx.query<{ organization_id: string; granted: bigint; room: bigint }>(REFILL, [
    organizations,
    wanted,
    slot,
  ])
  return rows.map((row) => ({
    organizationId: row.organization_id,
    grantedMicrocents: row.granted,
    roomMicrocents: row.room,
  }))
}

const REFILL = `
  with mine as (
    select organization_id, granted_microcents as granted, spent_microcents as spent,
      greatest(granted_microcents - spent_microcents, 0) as kept
    from allotments
    where slot = $3::integer and organization_id = any($1::text::uuid[])
    for update
  ), locked as (
    select a.organization_id, m.granted, m.spent, m.kept, w.need,
      a.balance_microcents - m.spent as balance,
      a.allotted_microcents - m.granted + m.kept as allotted,
      greatest(a.balance_microcents - m.spent - a.allotted_microcents + m.granted - m.kept, 0) as room
    from accounts a
    join mine m using (organization_id)
    join unnest($1::text::uuid[], $2::text::bigint[]) as w (organization_id, need) using (organization_id)
    order by a.organization_id
    for update of a
  ), granting as (
    select *, case when room / 4 >= need then room / 4 else least(need, room) end as fresh from locked
  ), account as (
    update accounts a set balance_microcents = g.balance, allotted_microcents = g.allotted + g.fresh
    from granting g where a.organization_id = g.organization_id
  )
  update allotments l set granted_microcents = g.kept + g.fresh, spent_microcents = l.spent_microcents - g.spent
  from granting g where l.organization_id = g.organization_id and l.slot = $3::integer
  returning l.organization_id, l.granted_microcents as granted, (g.balance - g.allotted - g.fresh)::bigint as room`

/**
 * Folds everything a dead slot left behind into the accounts: what it posted is subtracted from the balance, what it
 * was granted is free again. The accounts are locked in the order of their ids, as refills do. The caller holds the
 * slot's lock.
 */
export async function foldSlot(tx: Transaction, slot: number): Promise<void> {
  await tx.query(
    `with left_behind as (
       delete from allotments where slot = $1::integer returning organization_id, granted_microcents, spent_microcents
     ), locked as (
       select a.organization_id from accounts a join left_behind using (organization_id)
       order by a.organization_id for update of a
     )
     update accounts a set balance_microcents = a.balance_microcents - l.spent_microcents,
       allotted_microcents = a.allotted_microcents - l.granted_microcents
     from left_behind l join locked using (organization_id) where a.organization_id = l.organization_id`,
    [slot],
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

/** Notes that a process has taken a slot. */
export async function takeSlot(db: Queryable, slot: number, atMs: number): Promise<void> {
  await db.query(
    `insert into processes (slot, started_at) values ($1::integer, $2::timestamptz)
     on conflict (slot) do update set started_at = excluded.started_at`,
    [slot, toTimestamp(atMs)],
  )
}

/** Accounts whose books disagree: the ledger less all charges against balance, allotments and what is allotted. */
export async function findImbalances(
  db: Queryable,
): Promise<{ organization_id: string; booked: bigint; kept: bigint; allotted: bigint; granted: bigint }[]> {
  return db.query(
    `with booked as (
       select a.organization_id,
         coalesce((select sum(amount_microcents) from ledger_entries e where e.organization_id = a.organization_id), 0)
         - coalesce((select sum(cost_microcents) from charges c where c.organization_id = a.organization_id), 0) as booked,
         a.balance_microcents - coalesce((select sum(spent_microcents) from allotments l
           where l.organization_id = a.organization_id), 0) as kept,
         a.allotted_microcents as allotted,
         coalesce((select sum(granted_microcents) from allotments l
           where l.organization_id = a.organization_id), 0) as granted
       from accounts a
     )
     select organization_id, booked::bigint, kept::bigint, allotted::bigint, granted::bigint
     from booked where booked <> kept or allotted <> granted`,
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
