import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { type House, openHouse, withFaults } from '../../../test/moneyHouse.ts'
import { SILENCE } from '../../../test/silence.ts'
import { systemRandom } from '../../infra/random.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { Share } from '../admission/share.ts'
import { ChargeQueue, type QueuedCharge } from './chargeQueue.ts'
import { Poster, type PosterDependencies } from './poster.ts'

const clock = new TurnedClock()

let house: House
let organization: string
beforeAll(async () => {
  house = await openHouse(clock)
  organization = await house.organization(1_000n)
})
afterAll(() => house.drop())

const openPoster = (more: Partial<PosterDependencies>): Poster =>
  new Poster({ database: house.database, slot: () => 0, clock, random: systemRandom(), log: SILENCE, ...more })

function batch(): readonly QueuedCharge[] {
  const queue = new ChargeQueue({ clock, deadlineMs: SECOND_MS, onEnded: () => {}, onLate: () => {} })
  queue.add(house.charge(organization, 1n), new Share(organization), [], () => false)
  return queue.next(1)
}

test('prices are stored once for each database that may answer, and again where that failed', async () => {
  let stored = 0
  let isAway = true
  const poster = openPoster({
    async storePrices() {
      stored += 1
      // The database changes while they are stored.
      if (stored === 1) poster.forget()
      if (stored === 3 && isAway) throw new Error('away')
    },
  })
  await poster.post(batch())
  expect(stored).toBe(0)
  poster.forget()
  await poster.post(batch())
  await poster.post(batch())
  await poster.post(batch())
  expect(stored).toBe(2)
  poster.forget()
  await expect(poster.post(batch())).rejects.toThrow('away')
  isAway = false
  await poster.post(batch())
  await poster.post(batch())
  expect(stored).toBe(4)
})

test('a database that does not answer is asked each second whether it has kept the charges, until the process closes', async () => {
  let isAway = false
  let warnings = 0
  const log = { ...SILENCE, warn: () => (warnings += 1) }
  const poster = openPoster({ database: withFaults(house.database, () => (isAway ? 'before' : 'none')), log })
  poster.attach(() => {})
  const runWhatWaits = async () => {
    if (poster.size > 0) await poster.run()
  }
  await poster.post(batch())
  isAway = true
  poster.checkKept()
  await runWhatWaits()
  await clock.turn(SECOND_MS)
  await runWhatWaits()
  expect(warnings).toBe(2)
  poster.close()
  await clock.turn(SECOND_MS)
  expect(poster.size).toBe(0)
  poster.checkKept()
  expect(poster.size).toBe(0)
})
