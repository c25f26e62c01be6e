/** Lists the transactions that have to do with token accounts, as a node tells them. */

import { mapAtMost } from '../../../lib/mapAtMost.ts'
import { type BlockRange, ChainFailure } from '../chains/chain.ts'
import { type PacedNode, QUESTIONS_AT_ONCE } from '../chains/pace.ts'
import type { ListingPlaces } from './places.ts'
import { SIGNATURES_AT_ONCE, signatures } from './shapes.ts'

/** Of one list. Anybody can write a note into each transaction that is listed: where they make it larger, a shorter list is asked for. */
const LIST_BYTES_MOST = 1024 * 1024

/** Of one account in one reading; the next one goes on behind them. */
const PAGES_MOST = 1_000

/** Transactions of one answer that are held in memory. Of more, the range of blocks is to be shorter. */
const TRANSACTIONS_MOST = 5_000

/** Transactions that are listed in a range, also those that failed. Of more, it is to be shorter, so that each step ends in good time. */
const LISTED_MOST = 20_000

/** The same of one account in the slots before the range that are read again. Older slots were read before. */
const AGAIN_LISTED_MOST = 10_000

/** A transaction that has succeeded. */
export interface ListedTransaction {
  readonly signature: string
  readonly slot: number
}

/** A node, with the places in its lists that are known. */
export interface ListedNode {
  readonly node: PacedNode
  readonly places: ListingPlaces
}

type Row = ReturnType<typeof signatures.parse>[number]

/** The slots to list: a range, and those from `againFrom` on before it. */
interface Wanted extends BlockRange {
  readonly againFrom: number
}

/**
 * Lists the transactions of the accounts in a range, and in the slots from `againFrom` on before it; of the latter the newest
 * `TRANSACTIONS_MOST`. Throws `too_many` where there are more than that, or more than `LISTED_MOST` with those that failed, in several
 * slots of the range.
 */
export async function listTransactions(
  { node, places }: ListedNode,
  accounts: readonly string[],
  range: BlockRange,
  againFrom: number,
): Promise<readonly ListedTransaction[]> {
  const listed = new Map<string, number>()
  let inRange = 0
  let rowsInRange = 0
  const add = ({ signature, slot, err, confirmationStatus }: Row) => {
    if (slot >= range.from) rowsInRange += 1
    const isFinal = (confirmationStatus ?? 'finalized') === 'finalized'
    if (isFinal && err === null && !listed.has(signature)) {
      listed.set(signature, slot)
      if (slot >= range.from) inRange += 1
    }
    if ((inRange > TRANSACTIONS_MOST || rowsInRange > LISTED_MOST) && range.from < range.to)
      throw node.fail('too_many', 'has more transactions in these blocks than are read at once')
  }
  await mapAtMost(accounts, QUESTIONS_AT_ONCE, (account) =>
    listOfOne({ node, places }, account, { ...range, againFrom }, add),
  )
  const all = [...listed].map(([signature, slot]) => ({ signature, slot }))
  const again = all.filter(({ slot }) => slot < range.from).sort(newestFirst)
  return [...all.filter(({ slot }) => slot >= range.from), ...again.slice(0, TRANSACTIONS_MOST)]
}

/** By all that names them, so that two nodes that tell the same give the same. */
function newestFirst(one: ListedTransaction, other: ListedTransaction): number {
  return other.slot - one.slot || (one.signature < other.signature ? -1 : 1)
}

/** Nodes list the newest first, and those too that have failed. It goes on from the last known place that is behind the range. */
async function listOfOne(
  { node, places }: ListedNode,
  account: string,
  { from, to, againFrom }: Wanted,
  add: (row: Row) => void,
): Promise<void> {
  places.dropBefore(account, from)
  let before = places.behind(account, to)
  let isAtPlace = before !== undefined
  let limit = SIGNATURES_AT_ONCE
  let again = 0
  for (let page = 0; page < PAGES_MOST; page += 1) {
    const rows = await askForRows(node, account, { limit, before, to }, isAtPlace)
    if (rows === 'too_large') {
      limit = Math.ceil(limit / 2)
      continue
    }
    // Of a transaction that it does not know a node tells that nothing comes behind it. There was something.
    if (isAtPlace && rows.length === 0) {
      places.forget(account)
      ;[before, isAtPlace] = [undefined, false]
      continue
    }
    isAtPlace = false
    for (const row of rows) {
      if (row.slot > to || row.slot < againFrom) continue
      if (row.slot < from) again += 1
      if (again > AGAIN_LISTED_MOST) return
      add(row)
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < limit || last.slot < againFrom) return
    if (last.slot >= from) places.note(account, last)
    before = last.signature
  }
  throw node.fail('refused', 'has more transactions of one token account than are read')
}

/** One list; none where the node refuses to begin at a place; `too_large` where a shorter one is to be asked for. */
async function askForRows(
  node: PacedNode,
  account: string,
  { limit, before, to }: { readonly limit: number; readonly before: string | undefined; readonly to: number },
  isAtPlace: boolean,
): Promise<Row[] | 'too_large'> {
  // A node that is not as far as the range does not know all of it: it refuses.
  const how = { limit, commitment: 'finalized', minContextSlot: to, ...(before === undefined ? {} : { before }) }
  try {
    return await node.ask('getSignaturesForAddress', [account, how], signatures, { bytesMost: LIST_BYTES_MOST })
  } catch (error) {
    if (!(error instanceof ChainFailure)) throw error
    if (error.trouble === 'too_large' && limit > 1) return 'too_large'
    // One row of an honest node is never as large as that.
    if (error.trouble === 'too_large') node.pause()
    if (error.trouble === 'refused' && isAtPlace) return []
    throw error
  }
}
