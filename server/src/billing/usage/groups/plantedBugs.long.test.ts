/** The histories of usage see bugs: each is put into the statements, and must be found. */

import { expect, test } from 'bun:test'
import { holdUsageHistories, PLANTED_USAGE_BUGS } from '../../../../test/usageHistory.ts'

const SEEDS_MOST = 10

test.each(PLANTED_USAGE_BUGS.map((bug) => [bug.name, bug] as const))(
  'found: %s',
  async (name, { search, replace }) => {
    const error = await holdUsageHistories(SEEDS_MOST, (statement) => statement.replace(search, () => replace))
    expect(error?.message).toMatch(/^seed \d+ fails$/)
    console.log(`${name}: ${error?.message}`)
  },
  300_000,
)
