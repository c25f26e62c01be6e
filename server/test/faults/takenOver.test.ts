/**
 * A process that lost its slot's lock without dying, and another that took its Idempotency-Key over meanwhile: both make
 * the answer, and both want to charge it. Real PostgreSQL decides between the two; whatever it decides, there is one charge.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Attempt, Attempts } from '../../src/http/idempotency/attempts.ts'
import { systemRandom } from '../../src/infra/random.ts'
import { openAttempts, wholeOf } from '../keptAnswers.ts'
import { FastClock, type House, openHouse, openTill, type Till, withFaults } from '../moneyHouse.ts'
import { seeded } from './seeded.ts'

const ROUNDS = 60
const CALLS_A_ROUND = 8
const COST_MICROCENTS = 10n
const KEY = '00000000-0000-4000-8000-00000000000c'

const clock = new FastClock(Date.UTC(2030, 0, 15, 12))
const random = systemRandom()
const dataKey = random(32)
const request = new Uint8Array(32).fill(1)
let house: House
beforeAll(async () => {
  house = await openHouse(clock)
})
afterAll(() => house.drop())

/** To it every slot but its own is abandoned. */
function openProcess(slot: number, till: Till): { attempts: Attempts; till: Till } {
  const isAbandoned = () => Promise.resolve(true)
  const attempts = openAttempts({ database: house.database, clock, random, slot: () => slot, isAbandoned, dataKey })
  return { attempts, till }
}

/** Charges and keeps, as a paid endpoint does; whether the answer may leave. */
async function finish(
  { till }: { till: Till },
  attempt: Attempt,
  organization: string,
  text: string,
): Promise<boolean> {
  const body = new TextEncoder().encode(text)
  const participants = await attempt.keep({ status: 200, contentType: 'text/plain', operationId: null, body })
  const posted = await till.writer.post(
    house.charge(organization, COST_MICROCENTS),
    till.share(organization),
    participants,
  )
  await attempt.end()
  return posted.kind === 'posted'
}

/** One call of a process that is taken over at any moment of its end, by a process that ends it too. */
async function race(
  one: ReturnType<typeof openProcess>,
  other: ReturnType<typeof openProcess>,
  key: string,
  turns: number,
) {
  const organization = await house.organization(1_000n)
  const owner = { id: KEY, organizationId: organization }
  const first = await one.attempts.begin(owner, key, request)
  if (first.kind !== 'begun') throw new Error(first.kind)
  const finishing = finish(one, first.attempt, organization, 'of the first')
  for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  const second = await other.attempts.begin(owner, key, request)
  const secondLeft = second.kind === 'begun' && (await finish(other, second.attempt, organization, 'of the second'))
  const firstLeft = await finishing
  expect([firstLeft, secondLeft].filter(Boolean)).toHaveLength(1)
  expect(await house.spent(organization)).toEqual({ microcents: COST_MICROCENTS, charges: 1 })
  const again = await other.attempts.begin(owner, key, request)
  if (again.kind !== 'replay') throw new Error(again.kind)
  expect(new TextDecoder().decode((await wholeOf(again.answer)).body)).toBe(
    firstLeft ? 'of the first' : 'of the second',
  )
  return firstLeft
}

test('the one whose key was taken over charges nothing, and gives no whole answer', async () => {
  const chooses = seeded(7)
  const faulty = withFaults(house.database, () => (chooses.percent(20) ? chooses.pick(['before', 'after']) : 'none'))
  const one = openProcess(11, openTill(faulty, 11, clock))
  const other = openProcess(12, openTill(house.database, 12, clock))
  let firsts = 0
  for (let round = 0; round < ROUNDS; round += 1) {
    // Several at once, so that their charges go in one batch, of which some are withdrawn.
    const raced = Array.from({ length: CALLS_A_ROUND }, (_, call) =>
      race(one, other, `round ${round} call ${call}`, chooses.between(0, 12)),
    )
    for (const firstLeft of await Promise.all(raced)) if (firstLeft) firsts += 1
  }
  // Both sides of the race were seen.
  expect(firsts).toBeWithin(1, ROUNDS * CALLS_A_ROUND)
  expect(await house.imbalances()).toEqual([])
}, 120_000)
