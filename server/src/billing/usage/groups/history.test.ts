import { expect, test } from 'bun:test'
import { holdUsageHistories, PLANTED_USAGE_BUGS } from '../../../../test/usageHistory.ts'

const SEEDS = Number(process.env['TOLLGATE_SEEDS'] ?? 1)

test('usage in groups is that of its charges, and of the ledger, whatever is late, corrected, stopped or dropped by retention', async () => {
  console.log(`seeds: ${SEEDS}`)
  const statements = new Set<string>()
  const error = await holdUsageHistories(SEEDS, (statement) => {
    statements.add(statement)
    return statement
  })
  if (error !== null) throw error
  // Else the long test would look for a bug that is not there.
  for (const { name, search } of PLANTED_USAGE_BUGS)
    expect([name, [...statements].some((statement) => statement.includes(search))]).toEqual([name, true])
}, 300_000)
