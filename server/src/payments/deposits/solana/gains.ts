/** Reads what transactions have added to token accounts, from the balances before and after each. */

import { mapAtMost } from '../../../lib/mapAtMost.ts'
import { type PacedNode, QUESTIONS_AT_ONCE } from '../chains/pace.ts'
import type { ListedTransaction } from './listing.ts'
import { type SolanaTransaction, type TokenBalance, transaction } from './shapes.ts'

/** Transactions of later versions than nodes are told are refused by them. */
export const TRANSACTION_VERSION_MOST = 1

/** Of one transaction, with its logs and what its programs called: some 1 MiB where somebody makes it as large as can be. */
const TRANSACTION_BYTES_MOST = 2 * 1024 * 1024

/** Transactions, gains of them and their senders that are remembered of one node, together. The newest slots are read again with each look. */
const REMEMBERED_MOST = 50_000

/** Tokens that a transaction has added to an account. */
interface Gain {
  readonly account: string
  readonly mint: string
  /** Null: the node does not tell. */
  readonly owner: string | null
  readonly units: bigint
  /** The place of the account among those of the transaction. */
  readonly ordinal: number
  /**
   * The owners of the accounts that the transaction took the token from, of most first. The payer of its fee where it
   * took none.
   */
  readonly senders: readonly string[]
}

/** A transaction, and what it has added to any account. */
export interface GainingTransaction extends ListedTransaction {
  readonly gains: readonly Gain[]
}

/** Reads transactions from one node. A final transaction always has the same gains, so each is asked for once. */
export interface TransactionGains {
  /** Reads the transactions, in the order given. */
  read(node: PacedNode, listed: readonly ListedTransaction[]): Promise<readonly GainingTransaction[]>
  /** Has all of them asked for again. */
  forget(): void
}

/** Makes the memory of one node, of gains of these mints. */
export function createTransactionGains(mints: readonly string[]): TransactionGains {
  const known = new Map<string, GainingTransaction>()
  let size = 0
  const sizeOf = ({ gains }: GainingTransaction) => gains.reduce((sum, { senders }) => sum + 1 + senders.length, 1)
  const remember = (read: GainingTransaction) => {
    if (known.has(read.signature)) return
    known.set(read.signature, read)
    size += sizeOf(read)
    for (const [signature, oldest] of known) {
      if (size <= REMEMBERED_MOST) break
      known.delete(signature)
      size -= sizeOf(oldest)
    }
  }
  return {
    read: (node, listed) =>
      mapAtMost(listed, QUESTIONS_AT_ONCE, async (each) => {
        const found = known.get(each.signature)
        if (found !== undefined && found.slot === each.slot) return found
        const read = { ...each, gains: gainsOf(await readTransaction(node, each), mints) }
        remember(read)
        return read
      }),
    forget() {
      known.clear()
      size = 0
    },
  }
}

async function readTransaction(node: PacedNode, { signature, slot }: ListedTransaction): Promise<SolanaTransaction> {
  const how = {
    commitment: 'finalized',
    encoding: 'json',
    maxSupportedTransactionVersion: TRANSACTION_VERSION_MOST,
  }
  const bounds = { bytesMost: TRANSACTION_BYTES_MOST }
  const read = await node.ask('getTransaction', [signature, how], transaction.nullable(), bounds)
  if (read === null) throw node.fail('malformed', 'lists a transaction and does not have it')
  if (read.slot !== slot || read.transaction.signatures[0] !== signature)
    throw node.fail('malformed', 'sent another transaction than it was asked for')
  return read
}

/**
 * Returns the gains of a transaction. The difference counts, whatever moved it and in however many parts: it is what
 * has come, and it can be read of any program. Tokens that are paid in and taken out in one transaction have not
 * come. A transaction that failed has moved nothing.
 */
function gainsOf({ transaction: sent, meta }: SolanaTransaction, mints: readonly string[]): Gain[] {
  if (meta.err !== null) return []
  const { writable = [], readonly = [] } = meta.loadedAddresses ?? {}
  const keys = [...sent.message.accountKeys, ...writable, ...readonly]
  const [before, after] = [byPlace(meta.preTokenBalances), byPlace(meta.postTokenBalances)]
  const sendersOf = new Map(mints.map((mint) => [mint, takenFrom(mint, before, after, keys)]))
  return meta.postTokenBalances.flatMap((now) => {
    const { accountIndex: ordinal, mint, owner = null } = now
    const [account, senders] = [keys[ordinal], sendersOf.get(mint)]
    const units = now.uiTokenAmount.amount - unitsAt(before, ordinal, mint)
    if (account === undefined || units <= 0n || senders === undefined) return []
    return [{ account, mint, owner, units, ordinal, senders }]
  })
}

type Balances = ReadonlyMap<number, TokenBalance>

function byPlace(balances: readonly TokenBalance[]): Balances {
  return new Map(balances.map((each) => [each.accountIndex, each]))
}

/** Returns the units of a token in the account at a place; 0 where the account is of another token. */
function unitsAt(balances: Balances, place: number, mint: string): bigint {
  const found = balances.get(place)
  return found?.mint === mint ? found.uiTokenAmount.amount : 0n
}

/**
 * The owners of the accounts that a transaction took a token from, of most first; in place of one that the node does not tell the account.
 * Where it took none, whoever paid its fee.
 */
function takenFrom(mint: string, before: Balances, after: Balances, keys: readonly string[]): string[] {
  const taken = [...before.values()].flatMap((had) => {
    const { accountIndex, owner } = had
    const units = had.mint === mint ? had.uiTokenAmount.amount - unitsAt(after, accountIndex, mint) : 0n
    return units > 0n ? [{ accountIndex, units, owner: owner ?? keys[accountIndex] ?? '' }] : []
  })
  taken.sort((one, other) =>
    one.units === other.units ? one.accountIndex - other.accountIndex : one.units > other.units ? -1 : 1,
  )
  return taken.length === 0 ? [keys[0] ?? ''] : [...new Set(taken.map(({ owner }) => owner))]
}
