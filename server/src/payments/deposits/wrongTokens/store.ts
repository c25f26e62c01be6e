/** Every query that writes `deposit_wrong_tokens`. */

import type { Queryable } from '../../../infra/postgres/database.ts'
import { toTimestamp } from '../../../lib/time.ts'
import type { WrongTransfer } from './wrongTransfer.ts'

/**
 * Transfers of wrong tokens that are kept of one deposit: so many of tokens that the settings take, and so many of others. Anybody may
 * send any number of others, which are worth nothing.
 */
const WRONG_TOKENS_MOST = 20

/** Writes down transfers of wrong tokens, of each deposit a few. */
export async function insertWrongTokens(
  db: Queryable,
  chain: string,
  wrong: readonly WrongTransfer[],
  nowMs: number,
): Promise<void> {
  const rows = wrong.map(({ transactionHash, token, asset, ordinal, depositId, sender, units, block }) => ({
    transaction_hash: transactionHash,
    token,
    is_taken: asset !== null,
    ordinal,
    deposit_id: depositId,
    sender,
    units: units.toString(),
    block_number: block.number,
    block_hash: block.hash,
  }))
  await db.query(
    `with seen as (
       select * from jsonb_to_recordset($2::text::jsonb) as s(transaction_hash text, token text, is_taken boolean, ordinal integer,
         deposit_id uuid, sender text, units numeric, block_number bigint, block_hash text)),
     kept as (
       select deposit_id, is_taken, count(*) as count from deposit_wrong_tokens
       where deposit_id in (select deposit_id from seen) group by deposit_id, is_taken),
     counted as (
       select seen.*, row_number() over (partition by seen.deposit_id, seen.is_taken order by block_number, transaction_hash, ordinal)
         + coalesce(kept.count, 0) as place
       from seen left join kept using (deposit_id, is_taken)
       where not exists (
         select 1 from deposit_wrong_tokens known where known.chain = $1 and known.transaction_hash = seen.transaction_hash
           and known.token = seen.token and known.ordinal = seen.ordinal))
     insert into deposit_wrong_tokens
       (chain, transaction_hash, token, is_taken, ordinal, deposit_id, sender, units, block_number, block_hash, detected_at)
     select $1, transaction_hash, token, is_taken, ordinal, deposit_id, sender, units, block_number, block_hash, $3::timestamptz
     from counted where place <= $4::integer order by deposit_id
     on conflict do nothing`,
    [chain, JSON.stringify(rows), toTimestamp(nowMs), WRONG_TOKENS_MOST],
  )
}
