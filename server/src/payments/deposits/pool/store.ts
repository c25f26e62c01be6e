/** Every query on `deposit_pool`. */

import type { DepositChain } from '../../../catalog/depositChain.ts'
import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { arrayLiteral } from '../../../infra/postgres/database.ts'
import { toTimestamp } from '../../../lib/time.ts'

/** Reserves a free address until `untilMs`: the first one from `draw` on that nobody else has reserved. Null: there is none. */
export async function reserveAddress(
  db: Queryable,
  chain: DepositChain,
  draw: number,
  at: { readonly nowMs: number; readonly untilMs: number },
  { lease, organizationId }: { readonly lease: string; readonly organizationId: string },
): Promise<string | null> {
  const rows = await db.query<{ address: string }>(
    `with drawn as (
       select address from deposit_pool
       where chain = $1 and state = 'free' and draw >= $2::bigint
         and (reserved_until is null or reserved_until <= $3::timestamptz)
       order by draw limit 1 for update skip locked)
     update deposit_pool p set lease = $5::uuid, reserved_for = $6::uuid, reserved_until = $4::timestamptz
     from drawn where p.address = drawn.address
     returning p.address`,
    [chain, draw, toTimestamp(at.nowMs), toTimestamp(at.untilMs), lease, organizationId],
  )
  return rows[0]?.address ?? null
}

/** Counts the addresses that are reserved for new deposits of an organization. */
export async function countReserved(db: Queryable, organizationId: string, nowMs: number): Promise<number> {
  const rows = await db.query<{ count: bigint }>(
    'select count(*) as count from deposit_pool where reserved_for = $1::uuid and reserved_until > $2::timestamptz',
    [organizationId, toTimestamp(nowMs)],
  )
  return Number(rows[0]?.count ?? 0n)
}

/** Has a reserved address rest until its reservation lapses, and count for no organization. */
export async function restAddress(db: Queryable, address: string, lease: string): Promise<void> {
  await db.query('update deposit_pool set reserved_for = null where address = $1 and lease = $2::uuid', [
    address,
    lease,
  ])
}

/** Ends a reservation, with what becomes of the address. False: it was not reserved under this lease any more. */
export async function endReservation(
  db: Queryable,
  address: string,
  lease: string,
  state: 'free' | 'given' | 'used',
): Promise<boolean> {
  const rows = await db.query(
    `update deposit_pool set state = $3, lease = null, reserved_until = null, reserved_for = null
     where address = $1 and lease = $2::uuid and state = 'free' returning address`,
    [address, lease, state],
  )
  return rows.length === 1
}

/** Returns those of the addresses that are in the pool, in whatever state, or have a deposit. */
export async function selectKnownAddresses(db: Queryable, addresses: readonly string[]): Promise<Set<string>> {
  const rows = await db.query<{ address: string }>(
    `select address from deposit_pool where address = any($1::text::text[])
     union select address from deposits where address = any($1::text::text[])`,
    [arrayLiteral(addresses)],
  )
  return new Set(rows.map(({ address }) => address))
}

/** Inserts free addresses, each with its draw. Returns how many were not known before. */
export async function insertAddresses(
  tx: Transaction,
  chain: DepositChain,
  addresses: readonly string[],
  draws: readonly number[],
  nowMs: number,
): Promise<number> {
  const rows = await tx.query(
    `insert into deposit_pool (address, chain, state, draw, imported_at)
     select address, $1, 'free', draw, $4::timestamptz
     from unnest($2::text::text[], $3::text::bigint[]) as new (address, draw)
     on conflict do nothing returning address`,
    [chain, arrayLiteral(addresses), arrayLiteral(draws.map(String)), toTimestamp(nowMs)],
  )
  return rows.length
}

/** Retires all free addresses of a chain; returns how many there were. */
export async function retireAddresses(tx: Transaction, chain: DepositChain): Promise<number> {
  const rows = await tx.query(
    `update deposit_pool set state = 'retired', lease = null, reserved_until = null, reserved_for = null
     where chain = $1 and state = 'free' returning address`,
    [chain],
  )
  return rows.length
}

/** Counts the free addresses of a chain. */
export async function countFree(db: Queryable, chain: DepositChain): Promise<number> {
  const rows = await db.query<{ count: bigint }>(
    `select count(*) as count from deposit_pool where chain = $1 and state = 'free'`,
    [chain],
  )
  return Number(rows[0]?.count ?? 0n)
}
