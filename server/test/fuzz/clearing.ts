import { arrayLiteral, type Database } from '../../src/infra/postgres/database.ts'

/** An organization may have 50 webhook endpoints. */
const KEPT = 20
const CLEANING_MS = 100

/** Deletes the rows that generated requests have made, but for the last few and `ids`, so that more can be made; the result stops it. */
export function clearMade(
  database: Database,
  table: 'deposits' | 'webhook_endpoints',
  ids: readonly string[],
): () => Promise<void> {
  return repeating(() =>
    database.query(
      `delete from ${table} where id <> all ($1::text::uuid[]) and id not in (
         select id from ${table} order by created_at desc limit $2::integer)`,
      [arrayLiteral(ids), KEPT],
    ),
  )
}

/** Gives every organization its whole budget of changes back (K7), again and again; the result stops it. */
export function clearBudgets(database: Database): () => Promise<void> {
  return repeating(() => database.query('delete from audit_budgets'))
}

function repeating(clear: () => Promise<unknown>): () => Promise<void> {
  let cleaning: Promise<unknown> = Promise.resolve()
  const timer = setInterval(() => {
    // The next one is soon.
    cleaning = clear().catch(() => {})
  }, CLEANING_MS)
  return async () => {
    clearInterval(timer)
    await cleaning
  }
}
