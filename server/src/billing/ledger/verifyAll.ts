import type { Disagreement } from '../../lib/disagreement.ts'
import { listChargeDays, listDroppedDays } from './store.ts'
import { type VerifyDependencies, verifyAccounts, verifyDay } from './verify.ts'

/** All of the books, the oldest day first: as long as there are charges. The result of each step is found once only. */
export async function* verifyAll(dependencies: VerifyDependencies): AsyncGenerator<Disagreement, void> {
  yield* verifyAccounts(dependencies)
  const { database, checks } = dependencies
  for (const check of checks) yield* check.whole(dependencies)
  const days = new Set([...(await listChargeDays(database)), ...(await listDroppedDays(database))])
  for (const day of [...days].sort()) yield* verifyDay(dependencies, day)
}
