import { afterAll, beforeAll, expect, test } from 'bun:test'
import { callOnce, openTills } from '../../../test/moneyGates.ts'
import { countRenewals, FastClock, type House, openHouse } from '../../../test/moneyHouse.ts'
import { checkBooks } from '../../../test/moneyRaces.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
const PROCESSES = 16
const CALLS = 250
const COST = 200n

let house: House
beforeAll(async () => {
  house = await openHouse(new FastClock(NOON_MS))
})
afterAll(() => house.drop())

test('16 processes spend the last of an account to the last call, and renew their shares no more than 100 times', async () => {
  const counted = countRenewals(house.database)
  await house.database.query('insert into processes (slot, started_at) select n, now() from generate_series(0, 15) n')
  const slots = Array.from({ length: PROCESSES }, (_, slot) => slot)
  const clock = new FastClock(NOON_MS, 1)
  const tills = openTills({ ...house, database: counted.database }, slots, clock)
  const organization = await house.organization(BigInt(CALLS) * COST)
  const answers = new Map<string, number>()
  let made = 0
  let refusedInARow = 0
  const work = async () => {
    while (refusedInARow < 2 * PROCESSES) {
      const till = tills[made++ % PROCESSES]
      if (till === undefined) throw new Error('no till')
      const answer = await callOnce(till, organization, COST)
      refusedInARow = answer === 'charged' ? 0 : refusedInARow + 1
      answers.set(answer, (answers.get(answer) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: PROCESSES }, work))
  expect(answers.get('charged')).toBe(CALLS)
  expect(counted.renewals()).toBeLessThanOrEqual(100)
  await checkBooks(house.database)
})
