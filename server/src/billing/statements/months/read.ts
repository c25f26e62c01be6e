import type { Queryable } from '../../../infra/postgres/database.ts'
import type { Clock } from '../../../lib/time.ts'
import { POSTED_GRACE_MS } from '../closing/closeDays.ts'
import { type Month, type Statement, statementOf } from './month.ts'
import { findStatement, readMovements } from './store.ts'

export interface StatementReader {
  /** Returns an organization's statement of a month, which may be older than the organization; null where the month has not begun. */
  read(organizationId: string, month: Month): Promise<Statement | null>
}

/**
 * Creates the reader of statements. An open month is added up from the charges of up to 25 hours. Requests for the same one that come
 * while it is added up get the same answer, so that one organization has one such query under way a month and process.
 */
export function createStatementReader(dependencies: {
  readonly database: Queryable
  readonly clock: Clock
}): StatementReader {
  const { database, clock } = dependencies
  const underWay = new Map<string, Promise<Statement | null>>()
  return {
    read(organizationId, month) {
      const key = `${organizationId} ${month.name}`
      const joined = underWay.get(key)
      if (joined !== undefined) return joined
      const reading = readStatement(database, organizationId, month, clock.now()).finally(() => underWay.delete(key))
      underWay.set(key, reading)
      return reading
    },
  }
}

async function readStatement(
  database: Queryable,
  organizationId: string,
  month: Month,
  nowMs: number,
): Promise<Statement | null> {
  if (month.startMs > nowMs) return null
  const stored = await findStatement(database, organizationId, month)
  if (stored !== null) {
    const statement = statementOf(month, 'closed', month.endMs + POSTED_GRACE_MS, stored.movements)
    if (statement.closingMicrocents !== stored.closingMicrocents) {
      throw new Error(`the lines of statement ${month.name} of organization ${organizationId} do not add up`)
    }
    return statement
  }
  // Nothing more comes into it, whether the background has stored it yet or not.
  const closedAtMs = month.endMs + POSTED_GRACE_MS
  const movements = await readMovements(database, organizationId, month)
  return nowMs < closedAtMs
    ? statementOf(month, 'open', nowMs, movements)
    : statementOf(month, 'closed', closedAtMs, movements)
}
