import { expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { HOUR_MS } from '../../lib/time.ts'
import { KeptCharges, type Lost } from './keptCharges.ts'

const NEWEST = '01b92570-1540-7000-8000-000000000001'
const clock = new TurnedClock()

/** A database that has so many charges of the slot, the newest among them or not. */
const having = (charges: bigint, hasNewest = true) => ({
  query: async <Row>(text: string) =>
    (text.includes('slot_charges') ? [{ charges }] : hasNewest ? [{ organization_id: 'x', cost: 1n }] : []) as Row[],
})

/** A process to which five charges of slot 3 were confirmed. */
function confirmed(): KeptCharges {
  const kept = new KeptCharges(clock)
  expect(kept.take(3, { charges: 5n, inserted: 2n }, { chargeId: NEWEST, admittedAtMs: clock.now() })).toBeNull()
  return kept
}
const lost = (charges: number): Lost => ({ charges, slot: 3, newestChargeId: NEWEST })
const next = { chargeId: '01b92570-1540-7000-8000-000000000002', admittedAtMs: clock.now() }

test.each([
  ['all that it had', { charges: 7n, inserted: 2n }, null],
  ['all, and the batch was there from an earlier try', { charges: 7n, inserted: 0n }, null],
  ['more, of another process that had the slot meanwhile', { charges: 20n, inserted: 2n }, null],
  ['less by three', { charges: 4n, inserted: 2n }, lost(3)],
  ['nothing', { charges: 2n, inserted: 2n }, lost(5)],
])('a batch is posted to a database with %s', (_, counted, found) => {
  const kept = confirmed()
  expect(kept.take(3, counted, next)).toEqual(found)
  // A loss is told once.
  expect(kept.take(3, { charges: counted.charges + 1n, inserted: 1n }, next)).toBeNull()
})

test('another slot has a count of its own', () => {
  expect(confirmed().take(4, { charges: 1n, inserted: 1n }, next)).toBeNull()
})

test('a database that is asked is compared with what it had confirmed, once', async () => {
  expect(await new KeptCharges(clock).compare(having(0n))).toBeNull()
  expect(await confirmed().compare(having(5n))).toBeNull()
  const kept = confirmed()
  expect(await kept.compare(having(1n, false))).toEqual(lost(4))
  expect(kept.take(3, { charges: 2n, inserted: 1n }, next)).toBeNull()
})

test('where another process has posted more than was lost, the newest charge is missed; after an hour nobody looks for it', async () => {
  const kept = confirmed()
  expect(await kept.compare(having(50n, false))).toEqual(lost(1))
  expect(await kept.compare(having(50n, false))).toBeNull()
  const idle = confirmed()
  await clock.turn(HOUR_MS + 1)
  expect(await idle.compare(having(50n, false))).toBeNull()
})
