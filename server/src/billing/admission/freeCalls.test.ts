/** Calls of models that cost nothing, where the account is known to have passed a gate (P2). */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { admitCall } from '../../../test/admitCall.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { CALL, callOnce } from '../../../test/moneyGates.ts'
import { type House, openHouse, openTill } from '../../../test/moneyHouse.ts'
import { checkBooks } from '../../../test/moneyRaces.ts'
import { systemRandom } from '../../infra/random.ts'
import { DAY_MS } from '../../lib/time.ts'
import { adjustBalance } from '../ledger/adjust.ts'
import { setLimit } from './accounts/limit.ts'
import { admit, begin } from './admit.ts'
import type { Enforcement } from './gates.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
const NOTHING = { wholeMicrocents: 0n, firstStepMicrocents: 0n }

let house: House
beforeAll(async () => {
  house = await openHouse(new TurnedClock(NOON_MS))
})
afterAll(() => house.drop())

const limit = (organization: string, monthlyMicrocents: bigint, enforcement: Enforcement) =>
  setLimit(house.database, organization, {
    monthlyMicrocents,
    dailyMicrocents: undefined,
    enforcement,
    autoTerminateHours: undefined,
  })

async function debit(organizationId: string, microcents: bigint): Promise<void> {
  const source = `adjustment:${organizationId}`
  const posted = { organizationId, amountMicrocents: -microcents, source, note: 'test', atMs: NOON_MS }
  expect(await adjustBalance(house.database, systemRandom(), posted)).toBe(true)
}

test.each([
  ['the balance is below zero', (id: string) => debit(id, 200n)],
  ['a limit that blocks new calls is below what is spent', (id: string) => limit(id, 49n, 'block_launch')],
  ['a limit that stops running calls is below what is spent', (id: string) => limit(id, 49n, 'stop_running')],
  ['a limit that stops running calls is reached', (id: string) => limit(id, 50n, 'stop_running')],
])('where %s, a call that costs nothing is admitted at once after one that was refused', async (_name, pass) => {
  const till = openTill(house.database, 0, new TurnedClock(NOON_MS))
  const organization = await house.organization(100n)
  expect(await callOnce(till, organization, 50n)).toBe('charged')
  await pass(organization)
  expect(await callOnce(till, organization, 60n)).not.toBe('charged')
  const admitted = await admitCall(till, { organizationId: organization, ...CALL }, NOTHING)
  if (!admitted.ok) throw new Error(`refused: ${admitted.refusal.code}`)
  const { hold } = admitted.value
  expect([hold.microcents, hold.needsNoMoney]).toEqual([0n, true])
  hold.release()
  await checkBooks(house.database)
})

test('a call that costs nothing is admitted although its account has come to a later day, whatever limits it', async () => {
  const till = openTill(house.database, 0, new TurnedClock(NOON_MS + DAY_MS))
  const organizationId = await house.organization(100n)
  await limit(organizationId, 100n, 'block_launch')
  expect(await callOnce(till, organizationId, 50n)).toBe('charged')
  const admission = { ...begin(till), admittedAtMs: NOON_MS, organizationId, ...CALL }
  const admitted = await admit(till, admission, NOTHING)
  if (!admitted.ok) throw new Error(`refused: ${admitted.refusal.code}`)
  admitted.value.hold.release()
})
