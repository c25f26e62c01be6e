/** Seeded histories of deposits (README.md): whatever is taken back, fails or happens twice, the ledger is what the chain has made final. */

import { expect, test } from 'bun:test'
import { runDepositHistories } from './runDepositHistories.ts'

const SEEDS = 30

test('no history loses a transfer, credits one twice or before it is final, or leaves a deposit unlike its transfers', async () => {
  const { failures } = await runDepositHistories(1, (count) => count < SEEDS)
  console.log(`seeds: ${SEEDS} of deposits, ${failures.length} failed`)
  expect(failures).toEqual([])
}, 120_000)
