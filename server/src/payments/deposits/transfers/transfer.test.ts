import { expect, test } from 'bun:test'
import type { DepositStatus } from '../deposit/deposit.ts'
import { stateOf, type TransferState } from './transfer.ts'

/** A deposit of $5 that expires at 1000. */
const DEPOSIT = { amountCents: 500, expiresAtMs: 1_000 }
const ASKED = 5_000_000n

test.each<[string, TransferState[], bigint, number, boolean, DepositStatus]>([
  // The transfers, the credited units, the time, whether late; then the status.
  ['nothing', [], 0n, 999, false, 'created'],
  ['nothing in time', [], 0n, 1_000, false, 'expired'],
  ['one in a block', ['detected'], 0n, 1, false, 'detected'],
  ['one under other blocks', ['confirming'], 0n, 1, false, 'confirming'],
  ['one that came late', ['detected'], 0n, 1_001, true, 'expired_received'],
  ['one under other blocks that came late', ['confirming'], 0n, 1_001, true, 'expired_received'],
  ['a credited one, and one that came late', ['credited', 'detected'], ASKED, 1_001, true, 'detected'],
  ['a held one, and one that came late', ['held', 'confirming'], 0n, 1_001, true, 'confirming'],
  ['a final one', ['settled'], 0n, 1_001, false, 'settled'],
  ['one in screening', ['screening'], 0n, 1, false, 'screening'],
  ['one that is held', ['held'], 0n, 1, false, 'held_screening'],
  ['the exact amount', ['credited'], ASKED, 1, false, 'credited'],
  ['a millionth less', ['credited'], ASKED - 1n, 1, false, 'credited_underpaid'],
  ['a millionth more', ['credited'], ASKED + 1n, 1, false, 'credited_overpaid'],
  ['a credited and a later one', ['credited', 'detected'], ASKED, 1, false, 'detected'],
  ['a credited and a held one', ['credited', 'held'], ASKED, 1, false, 'held_screening'],
  ['a held one and a later one', ['held', 'confirming'], 0n, 1, false, 'confirming'],
  ['a rejected one', ['rejected'], 0n, 1, false, 'failed_screening'],
  ['a rejected and a credited one', ['rejected', 'credited'], ASKED, 1, false, 'credited'],
  ['one that was taken back', ['dropped'], 0n, 999, false, 'created'],
  ['one that was taken back, after the end', ['dropped'], 0n, 1_000, false, 'failed'],
  ['one that was taken back, and another', ['dropped', 'credited'], ASKED, 1_000, false, 'credited'],
  ['a small one', ['small'], 0n, 1, false, 'created'],
  ['a small one, after the end', ['small'], 0n, 1_000, false, 'expired'],
])('%s', (_, states, creditedUnits, nowMs, isLate, status) => {
  const counts = Object.fromEntries(states.map((state) => [state, 1]))
  const sums = { counts, creditedUnits, isLate, txHash: null }
  expect(stateOf(DEPOSIT, sums, nowMs)).toEqual({ status, creditedMicrocents: creditedUnits * 100n, txHash: null })
})
