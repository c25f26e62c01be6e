/** The operator's queries on `deposit_transfers` and `deposit_wrong_tokens`. */

import type { DepositAsset, DepositChain } from '../../../catalog/depositChain.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import type { TransferKey, TransferState } from '../transfers/transfer.ts'

/** A transfer for the operator. */
export interface ShownTransfer extends TransferKey {
  readonly token: string
  readonly sender: string
  readonly otherSenders: readonly string[]
  readonly units: bigint
  readonly blockNumber: number
  readonly state: TransferState | 'wrong_token'
  readonly reason: string | null
  readonly detectedAtMs: number
}

interface ShownRow {
  readonly chain: DepositChain
  readonly transaction_hash: string
  readonly ordinal: number
  readonly token: string
  readonly sender: string
  readonly other_senders: readonly string[]
  readonly units: string
  readonly block_number: bigint
  readonly state: TransferState | 'wrong_token'
  readonly reason: string | null
  readonly detected_at: Date
}

/** Returns what has come to a deposit, the newest of the chain first, at most `limit`. */
export async function selectShown(db: Queryable, depositId: string, limit: number): Promise<ShownTransfer[]> {
  const rows = await db.query<ShownRow>(
    `select chain, transaction_hash, ordinal, token, sender, other_senders, units, block_number, state, reason, detected_at
     from deposit_transfers where deposit_id = $1::uuid
     union all
     select chain, transaction_hash, ordinal, token, sender, '[]', units, block_number, 'wrong_token', null, detected_at
     from deposit_wrong_tokens where deposit_id = $1::uuid
     order by block_number desc, transaction_hash, ordinal limit $2::integer`,
    [depositId, limit],
  )
  return rows.map((row) => ({
    chain: row.chain,
    transactionHash: row.transaction_hash,
    ordinal: row.ordinal,
    token: row.token,
    sender: row.sender,
    otherSenders: row.other_senders,
    units: BigInt(row.units),
    blockNumber: Number(row.block_number),
    state: row.state,
    reason: row.reason,
    detectedAtMs: row.detected_at.getTime(),
  }))
}

/** Where tokens have come to: an address, and a token that was sent there. */
export interface TokenPlace {
  readonly chain: DepositChain
  /** Null: no token that is taken. */
  readonly asset: DepositAsset | null
  readonly token: string
  readonly address: string
  /** Null: the address is from the pool. */
  readonly addressIndex: number | null
  readonly keyFingerprint: string | null
}

/** Returns where tokens have come to that the chain can't take back, in the order of addresses; at most `limit` behind a place. */
export async function selectPlaces(
  db: Queryable,
  after: { readonly address: string; readonly token: string },
  limit: number,
): Promise<TokenPlace[]> {
  const rows = await db.query<{
    chain: DepositChain
    asset: DepositAsset | null
    token: string
    address: string
    address_index: bigint | null
    key_fingerprint: string | null
  }>(
    `select d.chain, max(came.asset) as asset, came.token, d.address, d.address_index, d.key_fingerprint
     from (
       select deposit_id, token, asset from deposit_transfers where state not in ('detected', 'confirming', 'dropped')
       union all
       select deposit_id, token, null from deposit_wrong_tokens) came
     join deposits d on d.id = came.deposit_id
     where (d.address, came.token) > ($1, $2)
     group by d.id, came.token
     order by d.address, came.token limit $3::integer`,
    [after.address, after.token, limit],
  )
  return rows.map((row) => ({
    chain: row.chain,
    asset: row.asset,
    token: row.token,
    address: row.address,
    addressIndex: row.address_index === null ? null : Number(row.address_index),
    keyFingerprint: row.key_fingerprint,
  }))
}
