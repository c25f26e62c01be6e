/** Every query on `deposits`. */

import type { DepositAsset, DepositChain } from '../../../catalog/depositChain.ts'
import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { arrayLiteral } from '../../../infra/postgres/database.ts'
import { toTimestamp } from '../../../lib/time.ts'
import type { Deposit, DepositStatus, FoundDeposit } from './deposit.ts'

interface DepositRow {
  readonly id: string
  readonly organization_id: string
  readonly status: DepositStatus
  readonly chain: DepositChain
  readonly asset: DepositAsset
  readonly amount_cents: bigint
  readonly address: string
  readonly address_index: bigint | null
  readonly key_fingerprint: string | null
  readonly credited_microcents: bigint
  readonly tx_hash: string | null
  readonly created_at: Date
  readonly expires_at: Date
  readonly watched_until: Date
}

interface FoundRow extends DepositRow {
  readonly has_dropped: boolean
}

const COLUMNS =
  'id, organization_id, status, chain, asset, amount_cents, address, address_index, key_fingerprint, credited_microcents, tx_hash, created_at, expires_at, watched_until'

/** Read in the statement of the deposit, so that no watcher comes between the two. */
const HAS_DROPPED = `exists (select 1 from deposit_transfers t where t.deposit_id = deposits.id and t.state = 'dropped') as has_dropped`

/**
 * Locks an organization until the end of the transaction: of several new deposits one comes after the other. False: it is deleted.
 */
export async function lockDepositor(tx: Transaction, organizationId: string): Promise<boolean> {
  const rows = await tx.query(
    'select 1 from organizations where id = $1::uuid and deleted_at is null for no key update',
    [organizationId],
  )
  return rows.length === 1
}

/** Has the open deposits of an organization expire at once. Their addresses are watched as long as before. */
export async function updateExpiryOf(tx: Transaction, organizationId: string, nowMs: number): Promise<void> {
  await tx.query(
    `update deposits d set expires_at = $2::timestamptz from (
       select id from deposits
       where organization_id = $1::uuid and status = 'created' and expires_at > $2::timestamptz order by id for update
     ) waiting where d.id = waiting.id`,
    [organizationId, toTimestamp(nowMs)],
  )
}

/** Counts the deposits of an organization that have not expired and of which less than `leastMicrocents` is credited. */
export async function countOpenDeposits(
  db: Queryable,
  organizationId: string,
  { nowMs, leastMicrocents }: { readonly nowMs: number; readonly leastMicrocents: bigint },
): Promise<number> {
  const rows = await db.query<{ count: bigint }>(
    `select count(*) as count from deposits
     where organization_id = $1::uuid and expires_at > $2::timestamptz and credited_microcents < $3::bigint`,
    [organizationId, toTimestamp(nowMs), leastMicrocents],
  )
  return Number(rows[0]?.count ?? 0n)
}

/** Counts the deposits of an organization that were made after an instant. */
export async function countDepositsAfter(db: Queryable, organizationId: string, afterMs: number): Promise<number> {
  const rows = await db.query<{ count: bigint }>(
    'select count(*) as count from deposits where organization_id = $1::uuid and created_at > $2::timestamptz',
    [organizationId, toTimestamp(afterMs)],
  )
  return Number(rows[0]?.count ?? 0n)
}

/** Inserts a deposit. False: its address was given out before. */
export async function insertDeposit(tx: Transaction, deposit: Deposit): Promise<boolean> {
  const rows = await tx.query(
    `insert into deposits (id, organization_id, status, chain, asset, amount_cents, address, address_index, key_fingerprint,
       created_at, expires_at, watched_until)
     values ($1::uuid, $2::uuid, $3, $4, $5, $6::bigint, $7, $8::bigint, $9, $10::timestamptz, $11::timestamptz, $12::timestamptz)
     on conflict do nothing returning id`,
    [
      deposit.id,
      deposit.organizationId,
      deposit.status,
      deposit.chain,
      deposit.asset,
      deposit.amountCents,
      deposit.address,
      deposit.addressIndex,
      deposit.keyFingerprint,
      toTimestamp(deposit.createdAtMs),
      toTimestamp(deposit.expiresAtMs),
      toTimestamp(deposit.watchedUntilMs),
    ],
  )
  return rows.length === 1
}

/** Returns deposits, the newest first; of one organization, or of all where that is null. */
export async function selectDeposits(
  db: Queryable,
  organizationId: string | null,
  limit: number,
): Promise<FoundDeposit[]> {
  const rows = await db.query<FoundRow>(
    `select ${COLUMNS}, ${HAS_DROPPED} from deposits
     where $1::uuid is null or organization_id = $1::uuid order by id desc limit $2::integer`,
    [organizationId, limit],
  )
  return rows.map(fromFoundRow)
}

/** Returns a deposit by its id, of one organization or of any where that is null; null where there is none. */
export async function selectDeposit(
  db: Queryable,
  organizationId: string | null,
  id: string,
): Promise<FoundDeposit | null> {
  const rows = await db.query<FoundRow>(
    `select ${COLUMNS}, ${HAS_DROPPED} from deposits where id = $2::uuid and ($1::uuid is null or organization_id = $1::uuid)`,
    [organizationId, id],
  )
  return rows[0] === undefined ? null : fromFoundRow(rows[0])
}

/**
 * Returns addresses of a chain that were to be watched at an instant, and the ids of their deposits, in the order of those and at
 * most `limit` behind `afterId`.
 */
export async function selectWatched(
  db: Queryable,
  chain: string,
  atMs: number,
  afterId: string,
  limit: number,
): Promise<{ readonly id: string; readonly address: string }[]> {
  return db.query(
    `select id, address from deposits
     where chain = $1 and watched_until >= $2::timestamptz and id > $3::uuid order by id limit $4::integer`,
    [chain, toTimestamp(atMs), afterId, limit],
  )
}

/** Returns the ids of the deposits that have these addresses, by address. */
export async function selectIdsOf(
  db: Queryable,
  chain: string,
  addresses: readonly string[],
): Promise<Map<string, string>> {
  const rows = await db.query<{ id: string; address: string }>(
    'select id, address from deposits where chain = $1 and address = any($2::text::text[])',
    [chain, arrayLiteral(addresses)],
  )
  return new Map(rows.map(({ id, address }) => [address, id]))
}

/** Locks deposits until the end of the transaction, in the order of their ids, and returns them. */
export async function lockDeposits(tx: Transaction, ids: readonly string[]): Promise<Deposit[]> {
  const rows = await tx.query<DepositRow>(
    `select ${COLUMNS} from deposits where id = any($1::text::uuid[]) order by id for update`,
    [arrayLiteral(ids)],
  )
  return rows.map(fromRow)
}

/** Returns deposits of a chain that nobody has paid in time, those that expired first. */
export async function selectToExpire(db: Queryable, chain: string, nowMs: number, limit: number): Promise<string[]> {
  const rows = await db.query<{ id: string }>(
    `select id from deposits where chain = $1 and status = 'created' and expires_at <= $2::timestamptz
     order by expires_at limit $3::integer`,
    [chain, toTimestamp(nowMs), limit],
  )
  return rows.map(({ id }) => id)
}

/** Counts the deposits that are not over, by status; of all together at most `most`, the oldest first. */
export async function selectUnderWay(
  db: Queryable,
  most: number,
): Promise<{ readonly status: DepositStatus; readonly count: number; readonly oldestMs: number }[]> {
  const rows = await db.query<{ status: DepositStatus; count: bigint; oldest: Date }>(
    `select status, count(*) as count, min(created_at) as oldest from (
       select status, created_at from deposits where status in
         ('created', 'detected', 'confirming', 'settled', 'screening', 'held_screening', 'expired_received')
       order by created_at limit $1::integer) under_way group by status`,
    [most],
  )
  return rows.map(({ status, count, oldest }) => ({ status, count: Number(count), oldestMs: oldest.getTime() }))
}

/** Writes down the state of a deposit that is locked. */
export async function updateDeposit(
  tx: Transaction,
  id: string,
  { status, txHash }: Pick<Deposit, 'status' | 'txHash'>,
): Promise<void> {
  await tx.query('update deposits set status = $2, tx_hash = $3 where id = $1::uuid', [id, status, txHash])
}

/** Adds to the sum of the credits of a deposit that is locked. */
export async function incrementCredited(tx: Transaction, id: string, amountMicrocents: bigint): Promise<void> {
  await tx.query('update deposits set credited_microcents = credited_microcents + $2::bigint where id = $1::uuid', [
    id,
    amountMicrocents,
  ])
}

function fromFoundRow(row: FoundRow): FoundDeposit {
  return { ...fromRow(row), hasDropped: row.has_dropped }
}

function fromRow(row: DepositRow): Deposit {
  return {
    id: row.id,
    organizationId: row.organization_id,
    status: row.status,
    chain: row.chain,
    asset: row.asset,
    amountCents: Number(row.amount_cents),
    address: row.address,
    addressIndex: row.address_index === null ? null : Number(row.address_index),
    keyFingerprint: row.key_fingerprint,
    creditedMicrocents: row.credited_microcents,
    txHash: row.tx_hash,
    createdAtMs: row.created_at.getTime(),
    expiresAtMs: row.expires_at.getTime(),
    watchedUntilMs: row.watched_until.getTime(),
  }
}
