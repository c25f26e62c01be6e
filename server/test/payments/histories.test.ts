/** Seeded histories of payments (README.md): whatever fails, is repeated, reordered or lost, the ledger is the payment provider's list. */

import { expect, test } from 'bun:test'
import { runPaymentHistories } from './runPaymentHistories.ts'

/** A few; `test:long` tries many, fresh ones. */
const SEEDS = 18

test('no history loses a payment, credits one twice, or leaves a subscription unlike the payment provider’s', async () => {
  const { failures } = await runPaymentHistories(1, (count) => count < SEEDS)
  console.log(`seeds: ${SEEDS} of payments, ${failures.length} failed`)
  expect(failures).toEqual([])
}, 120_000)

test('a payment that auto-pay wrote down just before a freeze waits for its end, and no longer', async () => {
  const { failures } = await runPaymentHistories(2_001_103, (count) => count < 1)
  expect(failures).toEqual([])
})

test('a seed is the same history every time', async () => {
  for (const seed of [7, 18]) {
    const { trace } = await runPaymentHistories(seed, (count) => count < 1)
    const again = await runPaymentHistories(seed, (count) => count < 1)
    expect(trace.length).toBeGreaterThan(30)
    expect(again.trace).toEqual(trace)
  }
})
