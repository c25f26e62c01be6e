/** Participants that commit together with a charge, and participants that keep it from being posted. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { seeded } from '../../../test/faults/seeded.ts'
import { FastClock, type House, openHouse, openTill, withFaults } from '../../../test/moneyHouse.ts'
import type { Database, Participant } from '../../infra/postgres/database.ts'
import { readBalance } from '../admission/balance/balance.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)

let house: House
const clock = new TurnedClock(NOON_MS)
beforeAll(async () => {
  house = await openHouse(clock)
})
afterAll(() => house.drop())

/** Returns how often a database was asked for a transaction. */
function countingTransactions(database: Database): { database: Database; count: () => number } {
  let transactions = 0
  const transaction: Database['transaction'] = (work) => {
    transactions += 1
    return database.transaction(work)
  }
  return { database: { ...database, transaction }, count: () => transactions }
}

test('a batch without participants is one statement, and no transaction', async () => {
  const organization = await house.organization(1_000n)
  const counted = countingTransactions(house.database)
  const { writer, share } = openTill(counted.database, 0, clock)
  await Promise.all([1n, 2n].map((cost) => writer.post(house.charge(organization, cost), share(organization))))
  expect(counted.count()).toBe(0)
})

test('participants commit with their charge, all of a batch in one transaction, whatever becomes of its first try', async () => {
  const fast = new FastClock(NOON_MS)
  const random = seeded(3)
  const organization = await house.organization(10_000n)
  await house.database.query('create table ridden (id uuid primary key)')
  const faulty = withFaults(house.database, () => random.pick(['none', 'before', 'after']))
  const { writer, share } = openTill(faulty, 0, fast)
  const charges = Array.from({ length: 20 }, () => house.charge(organization, 1n))
  const posted = charges.map((charge, index) => {
    const participant: Participant = async (tx) => {
      await tx.query('insert into ridden values ($1::uuid) on conflict do nothing', [charge.chargeId])
      return true
    }
    return writer.post(charge, share(organization), index % 2 === 0 ? [participant] : [])
  })
  await Promise.all(posted)
  expect(await house.spent(organization)).toEqual({ microcents: 20n, charges: 20 })
  const ridden = await house.database.query<{ id: string }>('select id from ridden')
  const wanted = charges.filter((_, index) => index % 2 === 0).map(({ chargeId }) => chargeId)
  expect(ridden.map(({ id }) => id).sort()).toEqual(wanted.sort())
  expect(await readBalance(house.database, organization)).toBe(9_980n)
})

test('a charge that its participant withdraws is not posted, those beside it are, and its money is free again', async () => {
  const organization = await house.organization(1_000n)
  const tries = ['none', 'before', 'after', 'none', 'none'] as const
  let tried = 0
  const faulty = withFaults(house.database, () => tries[tried++] ?? 'none')
  const { writer, share: open } = openTill(faulty, 0, new FastClock(NOON_MS))
  const share = open(organization)
  let woken = 0
  const participant = (isOurs: boolean) => (): Promise<boolean> => Promise.resolve(isOurs)
  for (const cost of [5n, 7n, 11n, 13n]) share.unpostedMicrocents += cost
  share.wait(() => {
    woken += 1
  })
  const posted = await Promise.all([
    writer.post(house.charge(organization, 5n), share, [participant(true)]),
    writer.post(house.charge(organization, 7n), share, [participant(true), participant(false)]),
    writer.post(house.charge(organization, 11n), share),
    writer.post(house.charge(organization, 13n), share, [participant(false)]),
  ])
  expect(posted.map(({ kind }) => kind)).toEqual(['posted', 'superseded', 'posted', 'superseded'])
  expect(await house.spent(organization)).toEqual({ microcents: 16n, charges: 2 })
  expect([share.unpostedMicrocents, share.postedMicrocents, woken]).toEqual([0n, 16n, 1])
  expect(await readBalance(house.database, organization)).toBe(984n)
})

test('a participant that the database refuses takes no charge with it', async () => {
  const organization = await house.organization(1_000n)
  const till = openTill(house.database, 0, clock)
  const bad: Participant = async (tx) => {
    await tx.query('select 1 / $1::integer', [0])
    return true
  }
  const share = till.share(organization)
  const participants = [[], [bad], []]
  await Promise.all(participants.map((each) => till.writer.post(house.charge(organization, 5n), share, each)))
  expect(await house.spent(organization)).toEqual({ microcents: 15n, charges: 3 })
  expect(till.dead).toEqual([])
})
