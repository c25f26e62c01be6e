/** Every query on `deposit_transfers`. */

import type { DepositAsset, DepositChain } from '../../../catalog/depositChain.ts'
import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { arrayLiteral } from '../../../infra/postgres/database.ts'
import { toTimestamp } from '../../../lib/time.ts'
import type { ChainTransfer } from '../chains/chain.ts'
import { MICROCENTS_PER_UNIT, UNITS_PER_CENT } from '../deposit/deposit.ts'
import type { Transfer, TransferKey, TransferState, TransferSums } from './transfer.ts'

interface TransferRow {
  readonly chain: DepositChain
  readonly transaction_hash: string
  readonly ordinal: number
  readonly deposit_id: string
  readonly token: string
  readonly asset: DepositAsset | null
  readonly sender: string
  readonly other_senders: readonly string[]
  readonly units: string
  readonly block_number: bigint
  readonly state: TransferState
  readonly attempts: number
}

const COLUMNS =
  'chain, transaction_hash, ordinal, deposit_id, token, asset, sender, other_senders, units, block_number, state, attempts'

const KEY = 'chain = $1 and transaction_hash = $2 and ordinal = $3::integer'

const keyOf = ({ chain, transactionHash, ordinal }: TransferKey) => [chain, transactionHash, ordinal] as const

/** A transfer as a chain tells of it, with its deposit. */
export interface SeenTransfer extends ChainTransfer {
  readonly depositId: string
  readonly organizationId: string
  readonly isLate: boolean
}

/** Transfers of less than the least amount that are kept of one deposit: anybody may send any number of them. */
const SMALL_MOST = 1_000

/** Transfers that one statement writes. */
const ROWS_AT_ONCE = 1_000

const SEEN_ROWS = `jsonb_to_recordset($2::text::jsonb) as s(transaction_hash text, ordinal integer, deposit_id uuid,
         organization_id uuid, token text, asset text, sender text, other_senders jsonb, units numeric,
         block_number bigint, block_hash text, is_late boolean)`

const SEEN_COLUMNS = `transaction_hash, ordinal, deposit_id, organization_id, token, asset, sender, other_senders, units,
         block_number, block_hash, is_late`

/**
 * Writes down transfers in final blocks as `settled` and due for screening; of less than `leastUnits` as `small`. Those that were settled
 * before are left as they are.
 */
export async function upsertSettled(
  tx: Transaction,
  chain: string,
  seen: readonly SeenTransfer[],
  { leastUnits, nowMs }: { readonly leastUnits: bigint; readonly nowMs: number },
): Promise<void> {
  for (const rows of seenRows(seen)) {
    await tx.query(
      `with seen as (
         select s.*, s.units < $4::numeric as is_small from ${SEEN_ROWS}
         where not exists (
           select 1 from deposit_transfers known where known.chain = $1 and known.transaction_hash = s.transaction_hash
             and known.ordinal = s.ordinal and known.state not in ('detected', 'confirming', 'dropped'))),
       kept as (
         select deposit_id, count(*) as count from deposit_transfers
         where state = 'small' and deposit_id in (select deposit_id from seen) group by deposit_id),
       counted as (
         select seen.*, row_number() over (partition by seen.deposit_id, is_small) + coalesce(kept.count, 0) as place
         from seen left join kept using (deposit_id))
       insert into deposit_transfers as t (chain, ${SEEN_COLUMNS}, detected_at, state, due_at)
       select $1, ${SEEN_COLUMNS}, $3::timestamptz, case when is_small then 'small' else 'settled' end,
         case when not is_small then $3::timestamptz end
       from counted where not is_small or place <= $5::integer
       on conflict (chain, transaction_hash, ordinal) do update set
         deposit_id = excluded.deposit_id, organization_id = excluded.organization_id, token = excluded.token,
         asset = excluded.asset, sender = excluded.sender, other_senders = excluded.other_senders,
         units = excluded.units, block_number = excluded.block_number, block_hash = excluded.block_hash,
         state = excluded.state, due_at = excluded.due_at
       where t.state in ('detected', 'confirming', 'dropped')`,
      [chain, rows, toTimestamp(nowMs), leastUnits.toString(), SMALL_MOST],
    )
  }
}

/**
 * Has the small transfers of deposits screened where they together have come to `leastUnits`, or make up what was asked for: a customer
 * may send the rest of it later.
 */
export async function settleSmall(
  tx: Transaction,
  depositIds: readonly string[],
  { leastUnits, nowMs }: { readonly leastUnits: bigint; readonly nowMs: number },
): Promise<void> {
  await tx.query(
    `with sums as (
       select deposit_id, sum(units) filter (where state = 'small') as small,
         coalesce(sum(units) filter (where state in ('settled', 'screening', 'held', 'credited')), 0) as taken
       from deposit_transfers where deposit_id in (
         select deposit_id from deposit_transfers where deposit_id = any($1::text::uuid[]) and state = 'small')
       group by deposit_id),
     grown as (
       select deposit_id from sums join deposits d on d.id = deposit_id
       where small >= $2::numeric
         or (taken < d.amount_cents * $4::numeric and taken + small >= d.amount_cents * $4::numeric))
     update deposit_transfers t set state = 'settled', due_at = $3::timestamptz from grown
     where t.deposit_id = grown.deposit_id and t.state = 'small'`,
    [arrayLiteral(depositIds), leastUnits.toString(), toTimestamp(nowMs), UNITS_PER_CENT.toString()],
  )
}

/**
 * Writes down transfers in blocks that may be taken back. Those that were settled before are left as they are, and so are those of which
 * nothing has changed.
 */
export async function upsertNew(
  tx: Transaction,
  chain: string,
  seen: readonly SeenTransfer[],
  headBlock: number,
  nowMs: number,
): Promise<void> {
  for (const rows of seenRows(seen)) {
    await tx.query(
      `insert into deposit_transfers as t (chain, ${SEEN_COLUMNS}, detected_at, state)
       select $1, ${SEEN_COLUMNS}, $3::timestamptz, case when $4::bigint > block_number then 'confirming' else 'detected' end
       from ${SEEN_ROWS}
       on conflict (chain, transaction_hash, ordinal) do update set
         deposit_id = excluded.deposit_id, organization_id = excluded.organization_id, token = excluded.token,
         asset = excluded.asset, sender = excluded.sender, other_senders = excluded.other_senders,
         units = excluded.units, block_number = excluded.block_number, block_hash = excluded.block_hash,
         state = excluded.state
       where t.state in ('detected', 'confirming', 'dropped')
         and (t.deposit_id, t.token, t.sender, t.units, t.block_number, t.block_hash, t.state) is distinct from
           (excluded.deposit_id, excluded.token, excluded.sender, excluded.units, excluded.block_number,
            excluded.block_hash, excluded.state)`,
      [chain, rows, toTimestamp(nowMs), headBlock],
    )
  }
}

/** Each transfer once, as the JSON of some rows each. */
function* seenRows(seen: readonly SeenTransfer[]): Generator<string> {
  const once = [
    ...new Map(seen.map((transfer) => [`${transfer.transactionHash}:${transfer.ordinal}`, transfer])).values(),
  ]
  for (let from = 0; from < once.length; from += ROWS_AT_ONCE)
    yield JSON.stringify(once.slice(from, from + ROWS_AT_ONCE).map(toSeenRow))
}

function toSeenRow(seen: SeenTransfer) {
  const { transactionHash, ordinal, depositId, organizationId, token, asset, units, block, isLate } = seen
  return {
    transaction_hash: transactionHash,
    ordinal,
    deposit_id: depositId,
    organization_id: organizationId,
    token,
    asset,
    sender: seen.sender,
    other_senders: seen.otherSenders,
    units: units.toString(),
    block_number: block.number,
    block_hash: block.hash,
    is_late: isLate,
  }
}

/** Returns the ids of deposits with transfers that are not settled, in blocks up to `toBlock`. */
export async function selectUnsettled(db: Queryable, chain: string, toBlock: number): Promise<string[]> {
  const rows = await db.query<{ deposit_id: string }>(
    `select distinct deposit_id from deposit_transfers
     where chain = $1 and block_number <= $2::bigint and state in ('detected', 'confirming')`,
    [chain, toBlock],
  )
  return rows.map((row) => row.deposit_id)
}

/** Transfers that the chain has taken back and that are kept of one deposit. */
const DROPPED_MOST = 20

/** Marks transfers as dropped that are not settled, in blocks up to `toBlock`, but for those with `keys`, which the chain has. */
export async function dropUnsettled(
  tx: Transaction,
  chain: string,
  toBlock: number,
  keys: readonly Pick<TransferKey, 'transactionHash' | 'ordinal'>[],
): Promise<void> {
  const rows = await tx.query<{ deposit_id: string }>(
    `update deposit_transfers t set state = 'dropped'
     where chain = $1 and block_number <= $2::bigint and state in ('detected', 'confirming') and not exists (
       select 1 from unnest($3::text::text[], $4::text::integer[]) kept(transaction_hash, ordinal)
       where kept.transaction_hash = t.transaction_hash and kept.ordinal = t.ordinal)
     returning deposit_id`,
    [
      chain,
      toBlock,
      arrayLiteral(keys.map(({ transactionHash }) => transactionHash)),
      arrayLiteral(keys.map(({ ordinal }) => `${ordinal}`)),
    ],
  )
  const depositIds = [...new Set(rows.map((row) => row.deposit_id))]
  if (depositIds.length === 0) return
  await tx.query(
    `delete from deposit_transfers t using (
       select chain, transaction_hash, ordinal,
         row_number() over (partition by deposit_id order by detected_at desc, transaction_hash, ordinal) as place
       from deposit_transfers where deposit_id = any($1::text::uuid[]) and state = 'dropped') ranked
     where place > $2::integer and t.chain = ranked.chain and t.transaction_hash = ranked.transaction_hash
       and t.ordinal = ranked.ordinal`,
    [arrayLiteral(depositIds), DROPPED_MOST],
  )
}

/** Deletes dropped transfers of a chain that were detected before an instant, some at a time; those by which a deposit will fail stay. */
export async function deleteDropped(db: Queryable, chain: string, beforeMs: number, limit: number): Promise<void> {
  await db.query(
    `delete from deposit_transfers t using (
       select t.chain, t.transaction_hash, t.ordinal from deposit_transfers t join deposits d on d.id = t.deposit_id
       where t.state = 'dropped' and t.chain = $1 and t.detected_at < $2::timestamptz and d.status <> 'created'
       order by t.detected_at limit $3::integer for update of t skip locked) old
     where t.chain = old.chain and t.transaction_hash = old.transaction_hash and t.ordinal = old.ordinal
       and t.state = 'dropped'`,
    [chain, toTimestamp(beforeMs), limit],
  )
}

/** Returns what there is of the transfers of a deposit. It reads some rows by indexes, however many there are. */
export async function sumTransfers(
  tx: Transaction,
  { id, creditedMicrocents }: { readonly id: string; readonly creditedMicrocents: bigint },
): Promise<TransferSums> {
  const states = await tx.query<{ state: TransferState }>(
    `select state from unnest(array['detected', 'confirming', 'settled', 'screening', 'held', 'credited', 'rejected', 'dropped']) state
     where exists (select 1 from deposit_transfers t where t.deposit_id = $1::uuid and t.state = state.state)`,
    [id],
  )
  const late = await tx.query(
    `select 1 from deposit_transfers where deposit_id = $1::uuid and state in ('detected', 'confirming') and is_late limit 1`,
    [id],
  )
  const last = await tx.query<{ transaction_hash: string }>(
    `select transaction_hash from deposit_transfers where deposit_id = $1::uuid and state not in ('dropped', 'small')
     order by block_number desc, ordinal desc limit 1`,
    [id],
  )
  return {
    counts: Object.fromEntries(states.map(({ state }) => [state, 1])),
    creditedUnits: creditedMicrocents / MICROCENTS_PER_UNIT,
    isLate: late.length > 0,
    txHash: last[0]?.transaction_hash ?? null,
  }
}

/**
 * Claims transfers to screen, at most `limit`: marks them as `screening`, and due again at `untilMs`, so that no other process takes them
 * before. Organizations are served in turn: one of which fewer are being screened goes first, then the one that waits longest.
 */
export async function claimScreenings(
  db: Queryable,
  at: { readonly nowMs: number; readonly untilMs: number },
  limit: number,
): Promise<Transfer[]> {
  const rows = await db.query<TransferRow>(
    `with recursive organization as (
       (select organization_id from deposit_transfers where due_at is not null order by organization_id limit 1)
       union all
       select (select t.organization_id from deposit_transfers t
               where t.due_at is not null and t.organization_id > o.organization_id order by t.organization_id limit 1)
       from organization o where o.organization_id is not null),
     candidate as (
       select chain, transaction_hash, ordinal, due_at, place from organization o cross join lateral (
         select waiting.*, row_number() over (order by due_at) + (
             select count(*) from deposit_transfers busy where busy.organization_id = o.organization_id
               and busy.state = 'screening' and busy.due_at > $1::timestamptz) as place
         from (select chain, transaction_hash, ordinal, due_at
               from deposit_transfers where due_at <= $1::timestamptz
                 and organization_id = o.organization_id order by due_at limit $3::integer) waiting) first
       order by place, due_at limit $3::integer),
     due as (
       select t.chain, t.transaction_hash, t.ordinal from deposit_transfers t join candidate using (chain, transaction_hash, ordinal)
       where t.due_at <= $1::timestamptz for update of t skip locked)
     update deposit_transfers t set state = 'screening', due_at = $2::timestamptz, attempts = t.attempts + 1 from due
     where t.chain = due.chain and t.transaction_hash = due.transaction_hash and t.ordinal = due.ordinal
     returning ${COLUMNS.split(', ')
       .map((column) => `t.${column}`)
       .join(', ')}`,
    [toTimestamp(at.nowMs), toTimestamp(at.untilMs), limit],
  )
  return rows.map(fromRow)
}

/** Writes down that a transfer is decided. False: its screening was begun anew, or it was decided by somebody else. */
export async function updateDecided(
  tx: Transaction,
  transfer: Transfer,
  decided: { readonly state: 'credited' | 'rejected'; readonly reason: string | null; readonly atMs: number },
): Promise<boolean> {
  const rows = await tx.query(
    `update deposit_transfers set state = $5, reason = $6, decided_at = $7::timestamptz, due_at = null
     where ${KEY} and attempts = $4::integer and state in ('screening', 'held') returning ordinal`,
    [...keyOf(transfer), transfer.attempts, decided.state, decided.reason, toTimestamp(decided.atMs)],
  )
  return rows.length === 1
}

/** Holds a transfer until `dueAtMs`. False: its screening was begun anew, or it was decided by somebody else. */
export async function updateHeld(
  tx: Transaction,
  transfer: Transfer,
  held: { readonly reason: string; readonly dueAtMs: number },
): Promise<boolean> {
  const rows = await tx.query(
    `update deposit_transfers set state = 'held', reason = $5, due_at = $6::timestamptz
     where ${KEY} and attempts = $4::integer and state = 'screening' returning ordinal`,
    [...keyOf(transfer), transfer.attempts, held.reason, toTimestamp(held.dueAtMs)],
  )
  return rows.length === 1
}

/** Returns the transfers of a deposit that are held, and locks them: no screening of them begins until the end of the transaction. */
export async function selectHeld(tx: Transaction, depositId: string): Promise<Transfer[]> {
  const rows = await tx.query<TransferRow>(
    `select ${COLUMNS} from deposit_transfers where deposit_id = $1::uuid and state = 'held'
     order by block_number, transaction_hash, ordinal for update`,
    [depositId],
  )
  return rows.map(fromRow)
}

function fromRow(row: TransferRow): Transfer {
  return {
    chain: row.chain,
    transactionHash: row.transaction_hash,
    ordinal: row.ordinal,
    depositId: row.deposit_id,
    token: row.token,
    asset: row.asset,
    sender: row.sender,
    otherSenders: row.other_senders,
    units: BigInt(row.units),
    blockNumber: Number(row.block_number),
    state: row.state,
    attempts: row.attempts,
  }
}
