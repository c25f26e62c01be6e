import { afterAll, beforeAll, expect, test } from 'bun:test'
import { FastClock, type Fault, type House, openHouse, openTill, seeded, type Till, withFaults } from '../../test/moneyHouse.ts'
import type { Database } from '../io/postgres/database.ts'
import { admit } from './admit.ts'
import { readBalance } from './balance.ts'
import { settle } from './settle.ts'
import { findImbalances, foldSlot } from './store.ts'

const clock = new FastClock(Date.UTC(2030, 0, 15, 12))
const PRICE = { inputMicrocents: 1_000_000n, outputMicrocents: 0n, cachedInputMicrocents: null }
const KEY = '00000000-0000-4000-8000-000000000001'

let house: House
beforeAll(async () => {
  house = await openHouse(clock)
})
afterAll(() => house.drop())

interface Tally {
  admitted: number
  refused: number
  unavailable: number
  spentMicrocents: bigint
}

/** One call: its price is 1 micro-cent a token, so that its cost is any number of them. Costs at most what it holds. */
async function call(till: Till, organizationId: string, random: () => number, tally: Tally): Promise<void> {
  const whole = BigInt(1 + Math.floor(random() * 60))
  const first = 1n + whole / 3n
  const admitted = await admit(
    till,
    { organizationId, keyId: KEY, model: 'svc/test', tier: 'serverless', priceHash: new Uint8Array(32) },
    { wholeMicrocents: whole, firstStepMicrocents: first },
  )
  if (!admitted.ok) {
    if (admitted.refusal.code === 'insufficient_balance') tally.refused += 1
    else tally.unavailable += 1
    return
  }
  tally.admitted += 1
  const { hold } = admitted.value
  for (let wait = Math.floor(random() * 3); wait > 0; wait -= 1) await new Promise((resolve) => setImmediate(resolve))
  if (random() < 0.2) return hold.release()
  const promptTokens = Math.floor(random() * (Number(hold.microcents) + 1))
  const cost = await settle(till, admitted.value, PRICE, {
    usage: { promptTokens, cachedPromptTokens: 0, completionTokens: 0 },
    estimated: false,
    target: 'mock/test',
    outcome: 'completed',
  })
  tally.spentMicrocents += cost
}

/** At any instant, not only at rest: one statement sees one state of the books. */
async function checkBooks(database: Database): Promise<void> {
  expect(await findImbalances(database)).toEqual([])
  const over = await database.query(
    'select * from accounts where allotted_microcents > greatest(balance_microcents, 0)',
  )
  expect(over).toEqual([])
}

function faultsOf(random: () => number, rate: number): () => Fault {
  return () => (random() >= rate ? 'none' : random() < 0.5 ? 'before' : 'after')
}

for (const { seed, faultRate } of Array.from({ length: 12 }, (_, seed) => ({ seed, faultRate: seed % 2 === 0 ? 0 : 0.3 }))) {
  test(`two processes on one account never grant or spend more than there is (seed ${seed})`, async () => {
    const random = seeded(seed)
    const tally: Tally = { admitted: 0, refused: 0, unavailable: 0, spentMicrocents: 0n }
    const credits = [BigInt(Math.floor(random() * 6_000)), 300n, 700n]
    const organization = await house.organization(credits[0] ?? 0n)
    const other = await house.organization(100n)
    let granted = credits[0] ?? 0n
    const tills = [0, 1].map((slot) => openTill(withFaults(house.database, faultsOf(random, faultRate)), slot, clock))
    for (let round = 0; round < 6; round += 1) {
      const calls = tills.flatMap((till) =>
        Array.from({ length: 15 }, () => call(till, random() < 0.9 ? organization : other, random, tally)),
      )
      const credit = round === 2 || round === 4 ? credits[round / 2] : undefined
      if (credit !== undefined) {
        granted += credit
        calls.push(house.grant(organization, credit))
      }
      calls.push(checkBooks(house.database), checkBooks(house.database))
      await Promise.all(calls)
      await checkBooks(house.database)
    }
    const [here, there] = await Promise.all([house.spent(organization), house.spent(other)])
    expect(here.microcents + there.microcents).toBe(tally.spentMicrocents)
    expect(here.microcents).toBeLessThanOrEqual(granted)
    expect(await readBalance(house.database, organization)).toBe(granted - here.microcents)
    for (const till of tills) {
      for (const wallet of till.wallets.values()) {
        expect([wallet.heldMicrocents, wallet.unpostedMicrocents]).toEqual([0n, 0n])
        // A process may believe that it has less than the account says, never more.
        const rows = await house.database.query<{ left: bigint }>(
          `select granted_microcents - spent_microcents as left from allotments
           where organization_id = $1::uuid and slot = $2::integer`,
          [wallet.organizationId, tills.indexOf(till)],
        )
        expect(wallet.spendableMicrocents).toBeLessThanOrEqual(rows[0]?.left ?? 0n)
      }
    }
    expect(tally.admitted).toBeGreaterThan(0)
  })
}

test('slots are folded while others refill the same accounts, and nobody gets into a deadlock', async () => {
  const random = seeded(99)
  const organizations = await Promise.all(Array.from({ length: 12 }, () => house.organization(100_000n)))
  const living = openTill(house.database, 10, clock)
  const failures: unknown[] = []
  for (let round = 0; round < 12; round += 1) {
    const slot = 20 + round
    const dying = openTill(house.database, slot, clock)
    const shuffled = [...organizations].sort(() => random() - 0.5)
    await Promise.all(shuffled.map((organization) => dying.writer.refill(dying.wallet(organization), 50n)))
    for (const organization of shuffled) {
      await dying.writer.post(house.charge(organization, 3n), dying.wallet(organization))
    }
    const folding = house.database.transaction((tx) => foldSlot(tx, slot)).catch((error) => failures.push(error))
    const refills = organizations.map((organization) =>
      living.writer.refill(living.wallet(organization), 10n).catch((error) => failures.push(error)),
    )
    await Promise.all([folding, ...refills, checkBooks(house.database)])
  }
  expect(failures).toEqual([])
  await checkBooks(house.database)
  const rows = await house.database.query<{ slots: bigint }>('select count(*) as slots from allotments where slot >= 20')
  expect(rows).toEqual([{ slots: 0n }])
})

test('what a stopped process still posts after its slot was folded counts, once', async () => {
  const organization = await house.organization(1_000n)
  const zombie = openTill(house.database, 60, clock)
  const wallet = zombie.wallet(organization)
  await zombie.writer.refill(wallet, 100n)
  await zombie.writer.post(house.charge(organization, 40n), wallet)
  await Promise.all([1, 2].map(() => house.database.transaction((tx) => foldSlot(tx, 60))))
  expect(await readBalance(house.database, organization)).toBe(960n)
  await zombie.writer.post(house.charge(organization, 5n), wallet)
  expect(await readBalance(house.database, organization)).toBe(955n)
  await checkBooks(house.database)
  await house.database.transaction((tx) => foldSlot(tx, 60))
  expect(await readBalance(house.database, organization)).toBe(955n)
  await checkBooks(house.database)
})
