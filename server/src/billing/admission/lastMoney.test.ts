import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { admitCall } from '../../../test/admitCall.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { seeded } from '../../../test/faults/seeded.ts'
import { IdleClock } from '../../../test/idleClock.ts'
import { CALL, callOnce, openTills } from '../../../test/moneyGates.ts'
import {
  countRenewals,
  FastClock,
  type House,
  openHouse,
  openTill,
  type Till,
  withFaults,
} from '../../../test/moneyHouse.ts'
import { checkBooks } from '../../../test/moneyRaces.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { setLimit } from './accounts/limit.ts'
import { extendHold } from './admit.ts'
import { Hold } from './share.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
const PROCESSES = 16
const CALLS = 250
const COST = 200n
/** Orders of the statements of all processes. */
const SEEDS = [1, 2, 3, 4, 5, 6]

const worstOf = (microcents: bigint) => ({ wholeMicrocents: microcents, firstStepMicrocents: microcents })

let house: House
beforeAll(async () => {
  house = await openHouse(new FastClock(NOON_MS))
  await house.database.query('insert into processes (slot, started_at) select n, now() from generate_series(0, 15) n')
})
afterAll(() => house.drop())

/** Spends all that an account has; returns how many calls were charged, and how often shares were renewed. */
async function spendAll(seed: number): Promise<{ readonly charged: number; readonly renewals: number }> {
  const clock = new IdleClock(NOON_MS)
  const counted = countRenewals(clock.ordering(house.database, seeded(seed)))
  const slots = Array.from({ length: PROCESSES }, (_, slot) => slot)
  const tills = openTills({ ...house, database: counted.database }, slots, clock)
  const organization = await house.organization(BigInt(CALLS) * COST)
  let charged = 0
  let made = 0
  let refusedInARow = 0
  const work = async () => {
    while (refusedInARow < 2 * PROCESSES) {
      const till = tills[made++ % PROCESSES]
      if (till === undefined) throw new Error('no till')
      const isCharged = (await callOnce(till, organization, COST)) === 'charged'
      refusedInARow = isCharged ? 0 : refusedInARow + 1
      if (isCharged) charged += 1
    }
  }
  await clock.runUntil(Promise.all(Array.from({ length: PROCESSES }, work)))
  return { charged, renewals: counted.renewals() }
}

test('16 processes spend the last of an account to the last call, and renew their shares 100 times or less, at most 150', async () => {
  const renewals: number[] = []
  for (const seed of SEEDS) {
    const spent = await spendAll(seed)
    expect([seed, spent.charged]).toEqual([seed, CALLS])
    renewals.push(spent.renewals)
  }
  // Half of the orders take 61 or fewer; the most that 100 of them took is 108.
  expect(Math.max(...renewals)).toBeLessThanOrEqual(150)
  expect(renewals.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(100 * SEEDS.length)
  await checkBooks(house.database)
})

test('a process whose calls hold all of its share answers no reclaim, but every change', async () => {
  const organization = await house.organization(1_000n)
  let questions = 0
  const asked = withFaults(house.database, () => {
    questions += 1
    return 'none'
  })
  const till = openTill(asked, 0, new FastClock(NOON_MS, 1))
  const answers = async (hear: 'hearReclaim' | 'hearChange') => {
    const before = questions
    till[hear](organization)
    while (till.share(organization).openAsks > 0) await new Promise((resolve) => setImmediate(resolve))
    return questions - before
  }
  const taken = await admitCall(
    till,
    { organizationId: organization, ...CALL },
    { wholeMicrocents: 10n, firstStepMicrocents: 10n },
  )
  if (!taken.ok) throw new Error('refused')
  // More was granted than the call holds; the rest goes back.
  expect(await answers('hearReclaim')).toBe(1)
  expect([await answers('hearReclaim'), await answers('hearChange')]).toEqual([0, 1])
  taken.value.hold.release()
  expect([await answers('hearReclaim'), await answers('hearReclaim')]).toEqual([1, 0])
})

test('where reaching a limit stops what runs, the hold of running chat shrinks when another process is short', async () => {
  const organization = await house.organization(1_000n)
  await setLimit(house.database, organization, {
    monthlyMicrocents: 1_000n,
    dailyMicrocents: 100n,
    enforcement: 'stop_running',
    autoTerminateHours: undefined,
  })
  const [holder, other] = openTills(house, [0, 1], new FastClock(NOON_MS, 1))
  if (holder === undefined || other === undefined) throw new Error('no tills')
  const worst = { wholeMicrocents: 90n, firstStepMicrocents: 10n }
  const taken = await admitCall(holder, { organizationId: organization, ...CALL }, worst)
  if (!taken.ok) throw new Error('refused')
  // As a video that was made: it counts against the limit, and nobody is told.
  await house.database.query('update accounts set day_spent_microcents = 30 where organization_id = $1::uuid', [
    organization,
  ])
  expect(await callOnce(other, organization, 5n)).toBe('charged')
  expect(taken.value.hold.microcents).toBe(10n)
  taken.value.hold.release()
})

describe('what comes back just after the account was asked for the last time is for the call that has waited for it', () => {
  /** Another call holds 90 of 100, and gives them back at the last moment at which `waits` may wait. */
  async function returnedAtLast<T>(waits: (till: Till, organizationId: string) => Promise<T>): Promise<T> {
    const clock = new TurnedClock(NOON_MS)
    const till = openTill(house.database, 0, clock)
    const organization = await house.organization(100n)
    const taken = await admitCall(till, { organizationId: organization, ...CALL }, worstOf(90n))
    if (!taken.ok) throw new Error('refused')
    const waited = waits(till, organization)
    while (till.waitingCalls === 0) await house.database.query('select 1')
    const { writer } = till
    const renew = writer.renew.bind(writer)
    writer.renew = (share, wanted, ask) => {
      const take = () => {
        ask?.take?.()
        taken.value.hold.release()
      }
      return renew(share, wanted, ask && { ...ask, take })
    }
    await clock.turn(2 * SECOND_MS)
    return await waited
  }

  test('a new call is admitted', async () => {
    const answer = await returnedAtLast(async (till, organizationId) =>
      admitCall(till, { organizationId, ...CALL }, worstOf(50n)),
    )
    expect(answer).toMatchObject({ ok: true, value: { hold: { microcents: 50n } } })
  })

  test('a running one goes on', async () => {
    const extension = await returnedAtLast(async (till, organizationId) => {
      const share = till.share(organizationId)
      return extendHold(till, new Hold(share, 10n), share, 50n)
    })
    expect(extension).toBe('extended')
  })
})
