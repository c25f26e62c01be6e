/** Every query on durable holds. The sum that grants are decided on stands on the row of the account. */

import { arrayLiteral, type Transaction } from '../../../infra/postgres/database.ts'
import { CLOCKS_APART } from '../accounts/windows.ts'

/** Holds an amount on the account. False: its balance leaves less beside shares and other holds. */
export async function addHeld(tx: Transaction, organizationId: string, microcents: bigint): Promise<boolean> {
  const rows = await tx.query(
    `update accounts set held_microcents = held_microcents + $2::bigint
     where organization_id = $1::uuid and balance_microcents - shares_microcents - held_microcents >= $2::bigint
     returning organization_id`,
    [organizationId, microcents],
  )
  return rows.length === 1
}

export async function insertHold(
  tx: Transaction,
  hold: { readonly id: string; readonly organizationId: string; readonly microcents: bigint },
): Promise<void> {
  await tx.query('insert into holds (id, organization_id, amount_microcents) values ($1::uuid, $2::uuid, $3::bigint)', [
    hold.id,
    hold.organizationId,
    hold.microcents,
  ])
}

/** The amounts that a new hold of an instance, or a larger one, asks of an account. */
export interface InstanceReserve {
  readonly organizationId: string
  readonly microcents: bigint
  /** The hourly price that comes with it: of a new instance its own, else 0. */
  readonly hourMicrocents: bigint
  /** Of the statement's instant. */
  readonly at: string
  readonly day: string
  readonly month: string
  /** True when limits that only refuse new work bind it too. */
  readonly isNewInstance: boolean
  readonly newAccountCapMicrocents: bigint
}

/**
 * Holds money for an instance on its account, beside everything else that is held: within the balance, the limits that the
 * enforcement puts in its way and, for a new account, the cap. False: they leave less, and nothing has changed.
 */
export async function addInstanceHeld(tx: Transaction, reserve: InstanceReserve): Promise<boolean> {
  const rows = await tx.query(
    `update accounts set held_microcents = held_microcents + $2::bigint,
       instances_held_microcents = instances_held_microcents + $2::bigint, burn_microcents = burn_microcents + $3::bigint
     where organization_id = $1::uuid
       and balance_microcents - shares_microcents - held_microcents >= $2::bigint
       and (enforcement = 'notify_only' or (enforcement = 'block_launch' and not $7::boolean)
         or (coalesce(daily_limit_microcents - ${USED('day', `least($5::date, ${TODAY})`)} >= $2::bigint, true)
           and coalesce(monthly_limit_microcents - ${USED('month', `least($6::date, date_trunc('month', ${TODAY}))`)} >= $2::bigint, true)))
       and (not $7::boolean or coalesce(new_until <= $4::timestamptz, true)
         or hour_spent_microcents + shares_microcents + burn_microcents + $3::bigint <= $8::bigint)
     returning organization_id`,
    [
      reserve.organizationId,
      reserve.microcents,
      reserve.hourMicrocents,
      reserve.at,
      reserve.day,
      reserve.month,
      reserve.isNewInstance,
      reserve.newAccountCapMicrocents,
    ],
  )
  return rows.length === 1
}

/** The last day that any process may be in. One that counts a later day ends no day with it. */
const TODAY = `(clock_timestamp() + ${CLOCKS_APART})::date`

/**
 * Returns the SQL of the amount that counts against the limit of a day or month that began at `since`: the
 * spend in it, the shares of processes and, where reaching the limit stops instances, the money held for these.
 */
const USED = (period: 'day' | 'month', since: string) =>
  `(case when ${period} >= ${since} then ${period}_spent_microcents else 0 end + shares_microcents
     + case when enforcement = 'stop_running' then instances_held_microcents else 0 end)`

/** Writes how much an instance holds: a row, or none for nothing. The sum on the account is its caller's to change. */
export async function writeInstanceHold(
  tx: Transaction,
  hold: { readonly id: string; readonly organizationId: string; readonly microcents: bigint },
): Promise<void> {
  await tx.query(
    `with gone as (delete from holds where id = $1::uuid and $3::bigint = 0)
     insert into holds as h (id, organization_id, amount_microcents)
     select $1::uuid, $2::uuid, $3::bigint where $3::bigint > 0
     on conflict (id) do update set amount_microcents = excluded.amount_microcents`,
    [hold.id, hold.organizationId, hold.microcents],
  )
}

/** Takes off an account what an instance holds no more, and the hourly price of one that has ended. */
export async function subtractInstanceHeld(
  tx: Transaction,
  given: { readonly organizationId: string; readonly microcents: bigint; readonly hourMicrocents: bigint },
): Promise<void> {
  await tx.query(
    `update accounts set held_microcents = held_microcents - $2::bigint,
       instances_held_microcents = instances_held_microcents - $2::bigint, burn_microcents = burn_microcents - $3::bigint
     where organization_id = $1::uuid`,
    [given.organizationId, given.microcents, given.hourMicrocents],
  )
}

/** Ends a hold, takes it off its account, whose row stays locked, and returns its amount; null where there is none. */
export async function deleteHold(tx: Transaction, id: string): Promise<bigint | null> {
  const rows = await tx.query<{ amount: bigint }>(
    `with gone as (delete from holds where id = $1::uuid returning organization_id, amount_microcents)
     update accounts a set held_microcents = a.held_microcents - g.amount_microcents
     from gone g where a.organization_id = g.organization_id returning g.amount_microcents as amount`,
    [id],
  )
  return rows[0]?.amount ?? null
}

/** Ends holds of an organization, takes them off its account, whose row stays locked, and returns how many there were. */
export async function deleteHolds(tx: Transaction, organizationId: string, ids: readonly string[]): Promise<number> {
  const rows = await tx.query<{ count: bigint }>(
    `with gone as (
       delete from holds where organization_id = $1::uuid and id = any ($2::text::uuid[]) returning amount_microcents
     ), freed as (
       update accounts set held_microcents = held_microcents - (select coalesce(sum(amount_microcents), 0) from gone)::bigint
       where organization_id = $1::uuid
     )
     select count(*) as count from gone`,
    [organizationId, arrayLiteral(ids)],
  )
  return Number(rows[0]?.count ?? 0n)
}

/** Locks an account until the end of the transaction, so that what follows waits for nobody who waits for it. */
export async function lockAccount(tx: Transaction, organizationId: string): Promise<void> {
  await tx.query('select 1 from accounts where organization_id = $1::uuid for update', [organizationId])
}
