/** Every query on charges and rollups. Grants: `billing/admission/renewal/store.ts`. */

import { arrayLiteral, plainArrayLiteral, type Queryable } from '../../infra/postgres/database.ts'
import { toHex } from '../../lib/ids.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { Books } from './books.ts'
import type { Charge, SlotCharges } from './charge.ts'
import type { DeadCharge } from './deadCharge.ts'

/**
 * Posts a batch of charges: the rows, what this slot has spent by minute, its sums by hour and day, and where plans cover
 * some of them its rows of the plans' meters, in one statement
 * and so in one transaction. A charge that is there already is left alone and counted nowhere again, which makes the
 * statement safe to repeat whatever became of an earlier try. Only rows of this slot are updated: no two processes
 * ever wait for each other here. `servedModels` are the ids of the rows of `served_models`, one for each charge. Returns how many
 * charges the slot of a process has now; those of slots that processes share, which are negative, are not counted.
 */
export async function insertCharges(
  db: Queryable,
  slot: number,
  charges: readonly Charge[],
  servedModels: readonly number[],
  postedAtMs: number,
): Promise<SlotCharges> {
  const distinct = distinctOf(charges, servedModels)
  const column = (pick: (charge: Charge) => string | number | bigint | boolean | null): string =>
    arrayLiteral(charges.map(pick))
  const plain = (pick: (charge: Charge) => string | number | bigint | boolean): string =>
    plainArrayLiteral(charges.map(pick))
  const parameters = [
    plain((c) => toTimestamp(c.admittedAtMs)),
    plain((c) => c.chargeId),
    plain((c) => c.organizationId),
    plain((c) => c.keyId),
    plainArrayLiteral(servedModels),
    plain((c) => c.usage.promptTokens),
    plain((c) => c.usage.cachedPromptTokens),
    plain((c) => c.usage.completionTokens),
    plain((c) => c.estimated),
    plain((c) => c.costMicrocents),
    plain((c) => c.outcome),
    toTimestamp(postedAtMs),
    slot,
    plainArrayLiteral(distinct.numbers),
    arrayLiteral(distinct.charges.map(({ model }) => model)),
    arrayLiteral(distinct.charges.map(({ tier }) => tier)),
  ]
  const parts: Parts[] = []
  if (charges.some(({ metered, listMicrocents }) => metered !== undefined || listMicrocents !== undefined)) {
    parts.push(planParts(parameters.length + 1))
    parameters.push(
      column((c) => (c.cover === undefined ? null : toTimestamp(c.cover.periodStartMs))),
      column((c) => c.cover?.factorThousandths ?? null),
      column((c) => c.metered?.inputTokens ?? null),
      column((c) => c.metered?.outputTokens ?? null),
      column((c) => c.metered?.listMicrocents ?? c.listMicrocents ?? null),
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
  if (charges.some(({ instance }) => instance !== undefined)) {
    parts.push(instanceParts(parameters.length + 1))
    parameters.push(
      column((c) => c.instance?.instanceId ?? null),
      column((c) => c.instance?.gpuType ?? null),
      column((c) => c.instance?.gpuCount ?? null),
      column((c) => c.instance?.fromSecond ?? null),
      column((c) => c.instance?.seconds ?? null),
    )
  }
  const [counted] = await db.query<SlotCharges>(parts.length === 0 ? POST_CHAT : postingWith(parts), parameters)
  return counted ?? { charges: 0n, inserted: 0n }
}

/** Returns how many charges were ever posted under the slot of a process. */
export async function readSlotCharges(db: Queryable, slot: number): Promise<bigint> {
  const [row] = await db.query<{ charges: bigint }>('select charges from slot_charges where slot = $1::integer', [slot])
  return row?.charges ?? 0n
}

/** The model and tier of each number, each number once. */
function distinctOf(
  charges: readonly Charge[],
  numbers: readonly number[],
): { readonly numbers: readonly number[]; readonly charges: readonly Charge[] } {
  const distinct = new Map(numbers.map((number, index) => [number, charges[index] as Charge]))
  return { numbers: [...distinct.keys()], charges: [...distinct.values()] }
}

/** The parts of the posting statement that only some charges of a batch need. */
interface Parts {
  /** Of `charges`, each with a comma before it. */
  readonly columns: string
  readonly arrays: string
  readonly meters: string
  /** Sums of an hour's rollup beside the ordinary. */
  readonly sums: readonly string[]
}

/** Where plans cover some, or some cost less than their price; `at` is the number of its first parameter. */
const planParts = (at: number): Parts => ({
  sums: [],
  columns: ', plan_period, plan_factor, plan_input_tokens, plan_output_tokens, list_microcents',
  arrays: `, $${at}::text::timestamptz[], $${at + 1}::text::integer[], $${at + 2}::text::bigint[],
      $${at + 3}::text::bigint[], $${at + 4}::text::bigint[]`,
  meters: `, metered_periods as (
    insert into plan_periods as p (organization_id, period_start, slot, input_tokens, output_tokens, list_microcents)
    select organization_id, plan_period, $13::integer, sum(plan_input_tokens), sum(plan_output_tokens),
      sum(list_microcents)
    from inserted where plan_period is not null group by 1, 2
    on conflict (organization_id, period_start, slot) do update set
      input_tokens = p.input_tokens + excluded.input_tokens,
      output_tokens = p.output_tokens + excluded.output_tokens,
      list_microcents = p.list_microcents + excluded.list_microcents
  ), metered_hours as (
    insert into plan_hours as h (organization_id, hour, period_start, slot, requests, input_tokens, output_tokens,
      list_microcents)
    select organization_id, date_bin('1 hour', admitted_at, 'epoch'), plan_period, $13::integer, count(*),
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

/**
 * Where some are for instances; `at` is the number of its first parameter. The rows of `instance_hours` are not keyed by slot:
 * these charges are posted under the lock of their account alone.
 */
const instanceParts = (at: number): Parts => ({
  sums: [],
  columns: ', instance_id, gpu_type, gpu_count, instance_from_second, instance_seconds',
  arrays: `, $${at}::text::uuid[], $${at + 1}::text::text[], $${at + 2}::text::integer[], $${at + 3}::text::bigint[],
      $${at + 4}::text::integer[]`,
  meters: `, instances as (
    insert into instance_hours as i (organization_id, hour, instance_id, gpu_type, requests, gpu_seconds, cost_microcents)
    select organization_id, date_bin('1 hour', admitted_at, 'epoch'), instance_id, gpu_type, count(*),
      sum(instance_seconds::bigint * gpu_count), sum(cost_microcents)
    from inserted where instance_id is not null group by 1, 2, 3, 4
    on conflict (organization_id, hour, instance_id) do update set
      requests = i.requests + excluded.requests,
      gpu_seconds = i.gpu_seconds + excluded.gpu_seconds,
      cost_microcents = i.cost_microcents + excluded.cost_microcents
  )`,
})

/** Posts into no closed day (`statements/closing/`), where the database's clock was set back: nobody looks there any more. */
const POSTED_AT = `greatest($12::timestamptz, (select (max(day) + 1)::timestamp at time zone 'UTC' from closed_days))`

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
    insert into charges (admitted_at, id, organization_id, key_id, served_model, prompt_tokens,
      cached_prompt_tokens, completion_tokens, estimated, cost_microcents, outcome, posted_at${columns})
    select c.admitted_at, c.id, c.organization_id, c.key_id, c.served_model, c.prompt_tokens, c.cached_prompt_tokens,
      c.completion_tokens, c.estimated, c.cost_microcents, c.outcome, ${POSTED_AT}${columns}
    from unnest($1::text::timestamptz[], $2::text::uuid[], $3::text::uuid[], $4::text::uuid[], $5::text::integer[],
      $6::text::integer[], $7::text::integer[], $8::text::integer[], $9::text::boolean[], $10::text::bigint[],
      $11::text::text[]${arrays})
      as c (admitted_at, id, organization_id, key_id, served_model, prompt_tokens, cached_prompt_tokens, completion_tokens,
        estimated, cost_microcents, outcome${columns})
    on conflict (admitted_at, id) do nothing
    returning organization_id, admitted_at, served_model, key_id, prompt_tokens, cached_prompt_tokens,
      completion_tokens, cost_microcents${columns}
  ), spent as (
    insert into unfolded_spend as s (organization_id, slot, minute, spent_microcents)
    select organization_id, $13::integer, date_bin('1 minute', admitted_at, 'epoch'), sum(cost_microcents)
    from inserted group by 1, 3 having sum(cost_microcents) > 0
    on conflict (organization_id, slot, minute) do update set spent_microcents = s.spent_microcents + excluded.spent_microcents
  ), hours as (
    select organization_id, date_bin('1 hour', admitted_at, 'epoch') as hour, model, tier, key_id, count(*) as requests,
      sum(prompt_tokens) as prompt_tokens, sum(cached_prompt_tokens) as cached_prompt_tokens,
      sum(completion_tokens) as completion_tokens, sum(cost_microcents) as cost_microcents
      ${sums.map((name) => `, coalesce(sum(${name}), 0) as ${name}`).join('')}
    from inserted join unnest($14::text::integer[], $15::text::text[], $16::text::text[]) as s (served_model, model, tier)
      using (served_model) group by 1, 2, 3, 4, 5
  ), days as (
    insert into usage_days as d (organization_id, day, slot, requests, cost_microcents)
    select organization_id, date_bin('1 day', hour, 'epoch'), $13::integer, sum(requests), sum(cost_microcents)
    from hours group by 1, 2
    on conflict (organization_id, day, slot) do update set
      requests = d.requests + excluded.requests,
      cost_microcents = d.cost_microcents + excluded.cost_microcents
  )${meters}, counted as (
    insert into slot_charges as n (slot, charges)
    select $13::integer, count(*) from inserted where $13::integer >= 0 having count(*) > 0
    on conflict (slot) do update set charges = n.charges + excluded.charges
    returning charges
  ), summed as (
  insert into usage_hours as r (organization_id, hour, model, tier, key_id, slot, requests, prompt_tokens,
    cached_prompt_tokens, completion_tokens, cost_microcents${names})
  select organization_id, hour, model, tier, key_id, $13::integer, requests, prompt_tokens, cached_prompt_tokens,
    completion_tokens, cost_microcents${names}
  from hours
  on conflict (organization_id, hour, model, tier, key_id, slot) do update set
    requests = r.requests + excluded.requests,
    prompt_tokens = r.prompt_tokens + excluded.prompt_tokens,
    cached_prompt_tokens = r.cached_prompt_tokens + excluded.cached_prompt_tokens,
    completion_tokens = r.completion_tokens + excluded.completion_tokens,
    cost_microcents = r.cost_microcents + excluded.cost_microcents
    ${sums.map((name) => `, ${name} = r.${name} + excluded.${name}`).join('')}
  )
  select coalesce((select charges from counted), (select charges from slot_charges where slot = $13::integer), 0) as charges,
    (select count(*) from inserted) as inserted`
}

/** The statement that posts nearly every batch. */
const POST_CHAT = postingWith([])

/** Returns the id of each charge's row of `served_models` with its place in the list, from 1, and adds those that are missing. */
export function findServedModels(
  db: Queryable,
  charges: readonly Charge[],
): Promise<{ readonly place: bigint; readonly id: number }[]> {
  return db.query(FIND_SERVED_MODELS, [
    arrayLiteral(charges.map(({ model }) => model)),
    arrayLiteral(charges.map(({ tier }) => tier)),
    arrayLiteral(charges.map(({ priceHash }) => toHex(priceHash))),
    arrayLiteral(charges.map(({ target }) => target)),
  ])
}

const FIND_SERVED_MODELS = `
  with given as (
    select place, model, tier, decode(hash, 'hex') as price_hash, target
    from unnest($1::text::text[], $2::text::text[], $3::text::text[], $4::text::text[])
      with ordinality as g (model, tier, hash, target, place)
  ), known as (
    select place, s.id from given join served_models s using (model, tier, price_hash, target)
  ), added as (
    insert into served_models as s (model, tier, price_hash, target)
    select model, tier, price_hash, target from given where place not in (select place from known)
    order by model, tier, price_hash, target
    -- Another process may add the same row just now: this waits for that one, and returns its row.
    on conflict (model, tier, price_hash, target) do update set target = s.target
    returning id, model, tier, price_hash, target
  )
  select place, id from known
  union all
  select place, id from given join added using (model, tier, price_hash, target)`

/** Keeps a charge that the database refuses, for an operator to look at. */
export async function insertDeadCharge(
  db: Queryable,
  charge: Charge,
  reason: string,
  failedAtMs: number,
): Promise<void> {
  const kept = JSON.stringify(charge, (_, value) => {
    if (value instanceof Uint8Array) return toHex(value)
    // jsonb can't hold these characters: it would refuse the charge a second time.
    if (typeof value === 'string') return value.replaceAll('\0', '\uFFFD').toWellFormed()
    return typeof value === 'bigint' ? value.toString() : value
  })
  await db.query(
    `insert into dead_charges (id, charge, reason, failed_at) values ($1::uuid, $2::text::jsonb, $3, $4::timestamptz)
     on conflict (id) do nothing`,
    [charge.chargeId, kept, reason, toTimestamp(failedAtMs)],
  )
}

/** Returns at most `atMost` dead charges before the id `beforeId`, the newest by admission first. */
export async function selectDeadCharges(db: Queryable, beforeId: string | null, atMost: number): Promise<DeadCharge[]> {
  const rows = await db.query<{ id: string; charge: DeadCharge['charge']; reason: string; failed_at: Date }>(
    `select id, charge, reason, failed_at from dead_charges
     where $1::uuid is null or id < $1::uuid order by id desc limit $2::integer`,
    [beforeId, atMost],
  )
  return rows.map(({ failed_at, ...dead }) => ({ ...dead, failedAtMs: failed_at.getTime() }))
}

export interface Imbalance extends Books {
  readonly organization_id: string
}

/** Accounts whose books disagree: the ledger less all charges against balance, shares, and what is granted and held. */
export async function findImbalances(db: Queryable): Promise<Imbalance[]> {
  return db.query(
    `with booked as (
       select a.organization_id,
         coalesce((select sum(amount_microcents) from ledger_entries e where e.organization_id = a.organization_id), 0)
         - coalesce((select sum(cost_microcents) from charges c where c.organization_id = a.organization_id), 0) as booked,
         a.balance_microcents - coalesce((select sum(spent_microcents) from unfolded_spend s
           where s.organization_id = a.organization_id), 0) as kept,
         a.shares_microcents as granted,
         coalesce((select sum(granted_microcents) from account_shares l
           where l.organization_id = a.organization_id), 0) as shares,
         a.held_microcents as held, coalesce((select sum(amount_microcents) from holds h
           where h.organization_id = a.organization_id), 0) as holds
       from accounts a
     )
     select organization_id, booked::bigint, kept::bigint, granted, shares::bigint, held, holds::bigint
     from booked where booked <> kept or granted <> shares or held <> holds`,
  )
}

/**
 * Returns the cost of a charge and the organization that paid it; null when there is none of this id, or its day was
 * dropped.
 */
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
