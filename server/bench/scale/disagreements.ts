import { type VerifyDependencies, verifyDay } from '../../src/billing/ledger/verify.ts'
import { verifyAll } from '../../src/billing/ledger/verifyAll.ts'
import { planCheck } from '../../src/billing/plans/verify.ts'
import { statementCheck } from '../../src/billing/statements/closing/verify.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import type { Disagreement } from '../../src/lib/disagreement.ts'

/** Returns everything that `./tollgate ledger verify` would find. */
export function disagreementsOfAll(database: Database): Promise<Disagreement[]> {
  return collect(verifyAll(withoutPauses(database)))
}

/** Returns everything that the background verification of a UTC day, `YYYY-MM-DD`, would find. `pause` is called between pages. */
export function disagreementsOfDay(
  database: Database,
  day: string,
  pause: () => Promise<void> = async () => {},
): Promise<Disagreement[]> {
  return collect(verifyDay({ ...withoutPauses(database), pause }, day))
}

function withoutPauses(database: Database): VerifyDependencies {
  return { database, pause: async () => {}, checks: [planCheck, statementCheck] }
}

async function collect(found: AsyncGenerator<Disagreement, void>): Promise<Disagreement[]> {
  const all: Disagreement[] = []
  for await (const each of found) all.push(each)
  return all
}
