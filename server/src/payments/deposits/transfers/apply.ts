/** Applies what a chain tells to the transfers of deposits, and to the deposits. */

import type { Transaction } from '../../../infra/postgres/database.ts'
import { type ChainTransfer, largestOfEach } from '../chains/chain.ts'
import type { Deposit } from '../deposit/deposit.ts'
import { depositIdsOf, lockDepositsOf } from '../deposit/watched.ts'
import { keepWrongTokens } from '../wrongTokens/keep.ts'
import { restate } from './restate.ts'
import { dropUnsettled, type SeenTransfer, selectUnsettled, settleSmall, upsertNew, upsertSettled } from './store.ts'

/** The transfers that a chain tells, and the instant. One of less than `leastUnits` is not screened by itself. */
interface Told {
  readonly transfers: readonly ChainTransfer[]
  readonly leastUnits: bigint
  readonly nowMs: number
}

/**
 * Applies all transfers in final blocks up to `toBlock`, from the first one that was not final before. They are settled; what was seen
 * in these blocks and is not among them was taken back by the chain. Call it with the cursor of the chain locked.
 */
export async function applyFinal(
  tx: Transaction,
  chain: string,
  { toBlock, transfers, leastUnits, nowMs }: Told & { readonly toBlock: number },
): Promise<void> {
  const { deposits, seen } = await lockAll(tx, chain, transfers, toBlock, nowMs)
  const isWanted = ownToken(deposits)
  await upsertSettled(tx, chain, seen.filter(isWanted), { leastUnits, nowMs })
  await settleSmall(tx, [...new Set(seen.map(({ depositId }) => depositId))], { leastUnits, nowMs })
  await keepWrongTokens(
    tx,
    chain,
    seen.filter((each) => !isWanted(each)),
    nowMs,
  )
  await dropUnsettled(tx, chain, toBlock, [])
  await restate(tx, deposits, nowMs)
}

/**
 * Applies all transfers in blocks that may be taken back. A transfer that was seen before and is not among them was
 * taken back. Of each deposit only the largest are written down, and none of less than `leastUnits`: anybody may send
 * any number of them.
 */
export async function applyNew(
  tx: Transaction,
  chain: string,
  { headBlock, transfers, leastUnits, nowMs }: Told & { readonly headBlock: number },
): Promise<void> {
  const { deposits, seen } = await lockAll(tx, chain, transfers, Number.MAX_SAFE_INTEGER, nowMs)
  // One of a wrong token is reported once it is final.
  const isWanted = ownToken(deposits)
  const worthwhile = seen.filter((each) => isWanted(each) && each.units >= leastUnits)
  const wanted = largestOfEach(worthwhile)
  await dropUnsettled(tx, chain, Number.MAX_SAFE_INTEGER, wanted)
  await upsertNew(tx, chain, wanted, headBlock, nowMs)
  await restate(tx, deposits, nowMs)
}

/** Locks the deposits that the transfers came to, and those of which a transfer may be dropped. */
async function lockAll(
  tx: Transaction,
  chain: string,
  transfers: readonly ChainTransfer[],
  toBlock: number,
  nowMs: number,
): Promise<{ readonly deposits: readonly Deposit[]; readonly seen: readonly SeenTransfer[] }> {
  const ids = await depositIdsOf(tx, chain, [...new Set(transfers.map(({ address }) => address))])
  const unsettled = await selectUnsettled(tx, chain, toBlock)
  const deposits = await lockDepositsOf(tx, [...new Set([...ids.values(), ...unsettled])])
  const byId = new Map(deposits.map((deposit) => [deposit.id, deposit]))
  const seen = transfers.flatMap((transfer) => {
    const deposit = byId.get(ids.get(transfer.address) ?? '')
    if (deposit === undefined) return []
    const { id: depositId, organizationId, expiresAtMs } = deposit
    return [{ ...transfer, depositId, organizationId, isLate: nowMs >= expiresAtMs }]
  })
  return { deposits, seen }
}

/** Only the token that a deposit asked for is credited: any other one counts as wrong, also where other deposits may ask for it. */
function ownToken(deposits: readonly Deposit[]): (seen: SeenTransfer) => boolean {
  const assets = new Map(deposits.map(({ id, asset }) => [id, asset]))
  return ({ depositId, asset }) => asset !== null && assets.get(depositId) === asset
}
