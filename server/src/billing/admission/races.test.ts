import { afterAll, beforeAll, expect, test } from 'bun:test'
import { seeded } from '../../../test/faults/seeded.ts'
import { FastClock, type House, openHouse, openTill } from '../../../test/moneyHouse.ts'
import { checkBooks, race } from '../../../test/moneyRaces.ts'
import { readBalance } from './balance/balance.ts'
import { foldSlot } from './slots/foldSlot.ts'

const SEEDS = 12

const clock = new FastClock(Date.UTC(2030, 0, 15, 12))

let house: House
beforeAll(async () => {
  house = await openHouse(clock)
})
afterAll(() => house.drop())

for (let seed = 1; seed <= SEEDS; seed += 1) {
  test(`two processes on one account never grant or spend more than there is (seed ${seed})`, async () => {
    await race(house, clock, seed)
  })
}

test('slots are folded while others renew the same accounts, and nobody gets into a deadlock', async () => {
  const random = seeded(99)
  const organizations = await Promise.all(Array.from({ length: 12 }, () => house.organization(100_000n)))
  const living = openTill(house.database, 10, clock)
  const failures: unknown[] = []
  for (let round = 0; round < 12; round += 1) {
    const slot = 20 + round
    const dying = openTill(house.database, slot, clock)
    const shuffled = [...organizations].sort(() => random.pick([-1, 1]))
    await Promise.all(shuffled.map((organization) => dying.writer.renew(dying.share(organization), 50n)))
    for (const organization of shuffled) {
      await dying.writer.post(house.charge(organization, 3n), dying.share(organization))
    }
    const folding = house.database
      .transaction((tx) => foldSlot(tx, slot, clock.now()))
      .catch((error) => failures.push(error))
    const renewals = organizations.map((organization) =>
      living.writer.renew(living.share(organization), 10n).catch((error) => failures.push(error)),
    )
    await Promise.all([folding, ...renewals, checkBooks(house.database)])
  }
  expect(failures).toEqual([])
  await checkBooks(house.database)
  const rows = await house.database.query<{ slots: bigint }>(
    'select count(*) as slots from account_shares where slot >= 20',
  )
  expect(rows).toEqual([{ slots: 0n }])
})

test('charges that a stopped process still posts after its slot was folded count, once', async () => {
  const organization = await house.organization(1_000n)
  const zombie = openTill(house.database, 60, clock)
  const share = zombie.share(organization)
  await zombie.writer.renew(share, 100n)
  await zombie.writer.post(house.charge(organization, 40n), share)
  await Promise.all([1, 2].map(() => house.database.transaction((tx) => foldSlot(tx, 60, clock.now()))))
  expect(await readBalance(house.database, organization)).toBe(960n)
  await zombie.writer.post(house.charge(organization, 5n), share)
  expect(await readBalance(house.database, organization)).toBe(955n)
  await checkBooks(house.database)
  await house.database.transaction((tx) => foldSlot(tx, 60, clock.now()))
  expect(await readBalance(house.database, organization)).toBe(955n)
  await checkBooks(house.database)
})
