import type { Queryable } from '../../../infra/postgres/database.ts'
import type { ChainTransfer } from '../chains/chain.ts'
import { depositIdsOf } from '../deposit/watched.ts'
import { insertWrongTokens } from './store.ts'
import type { WrongTransfer } from './wrongTransfer.ts'

/**
 * Keeps transfers of wrong tokens for the operator: of a deposit 20 of tokens that are taken, and 20 of others. They are never
 * credit, and have a table of their own, so that none takes the key of a transfer that is.
 */
export async function keepWrongTokens(
  db: Queryable,
  chain: string,
  wrong: readonly WrongTransfer[],
  nowMs: number,
): Promise<void> {
  if (wrong.length > 0) await insertWrongTokens(db, chain, wrong, nowMs)
}

/** Keeps transfers of tokens that are not taken, which a node told of, where they came to a deposit. */
export async function keepOtherTokens(
  db: Queryable,
  chain: string,
  others: readonly ChainTransfer[],
  nowMs: number,
): Promise<void> {
  const ids = await depositIdsOf(db, chain, [...new Set(others.map(({ address }) => address))])
  const wrong = others.flatMap((transfer) => {
    const depositId = ids.get(transfer.address)
    return depositId === undefined ? [] : [{ ...transfer, depositId }]
  })
  await keepWrongTokens(db, chain, wrong, nowMs)
}
