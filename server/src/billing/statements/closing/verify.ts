import type { Queryable } from '../../../infra/postgres/database.ts'
import type { Disagreement } from '../../../lib/disagreement.ts'
import { LOWEST_UUID } from '../../../lib/ids.ts'
import { LATEST_MS } from '../../../lib/instant.ts'
import { compareStatements } from './store.ts'

/** Accounts a statement: each has a row for each day and model. */
const ACCOUNTS_PAGE = 100

/**
 * Yields every account whose statements come to something else than its books. A charge that was committed into a closed day is found
 * by this, and an entry of the ledger that was committed into a closed month.
 */
async function* verifyStatements({
  database,
  pause,
}: {
  readonly database: Queryable
  readonly pause: () => Promise<void>
}): AsyncGenerator<Disagreement, void> {
  for (let after: string | null = LOWEST_UUID; after !== null; ) {
    const page: Awaited<ReturnType<typeof compareStatements>> = await compareStatements(
      database,
      after,
      ACCOUNTS_PAGE,
      LATEST_MS - 1,
    )
    for (const found of page.differences) yield { kind: 'statement', ...found }
    after = page.lastId
    await pause()
  }
}

/** No figure of statements belongs to one day of admission. */
async function* nothingOfDay(): AsyncGenerator<Disagreement, void> {}

/** The check of statements, for the verification of the books. */
export const statementCheck = { whole: verifyStatements, day: nothingOfDay }
