/** Running calls under a limit that was lowered, a balance that was debited, or an enforcement that was set (P5). */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { admitCall } from '../../../test/admitCall.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { CALL, callOnce } from '../../../test/moneyGates.ts'
import { type Fault, type House, openHouse, openTill, type Till, withFaults } from '../../../test/moneyHouse.ts'
import { checkBooks } from '../../../test/moneyRaces.ts'
import { systemRandom } from '../../infra/random.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { chatTerms, commit, prepare } from '../charges/settle.ts'
import { adjustBalance } from '../ledger/adjust.ts'
import { readFigures } from './accounts/figures.ts'
import { setLimit } from './accounts/limit.ts'
import type { Admitted } from './admit.ts'
import { readBalance } from './balance/balance.ts'
import type { Enforcement } from './gates.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
/** A token costs a micro-cent. */
const PRICE = { inputMicrocents: 1_000_000n, outputMicrocents: 0n, cachedInputMicrocents: null }

let house: House
beforeAll(async () => {
  house = await openHouse(new TurnedClock(NOON_MS))
})
afterAll(() => house.drop())

const limit = (organization: string, daily: bigint, enforcement: Enforcement) =>
  setLimit(house.database, organization, {
    monthlyMicrocents: 1_000_000n,
    dailyMicrocents: daily,
    enforcement,
    autoTerminateHours: undefined,
  })

async function running(organization: string, till: Till): Promise<Admitted> {
  const worst = { wholeMicrocents: 900n, firstStepMicrocents: 100n }
  const taken = await admitCall(till, { organizationId: organization, ...CALL }, worst)
  if (!taken.ok) throw new Error('refused')
  return taken.value
}

describe('a running call that holds its worst case, 900 of 1000', () => {
  async function house1000() {
    const organization = await house.organization(1_000n)
    await limit(organization, 1_000n, 'stop_running')
    const clock = new TurnedClock(NOON_MS)
    const state: { fault: Fault } = { fault: 'none' }
    const till = openTill(
      withFaults(house.database, () => state.fault),
      0,
      clock,
    )
    const admitted = await running(organization, till)
    return { organization, clock, state, till, admitted, hold: admitted.hold }
  }

  test.each(['before', 'after'] as const)(
    'is shrunk though the renewal of a reclaim is lost (%s): it is tried again within 2 s',
    async (fault) => {
      const { organization, clock, state, till, hold } = await house1000()
      await limit(organization, 500n, 'stop_running')
      state.fault = fault
      for (let heard = 0; heard < 3; heard += 1) till.hearChange(organization)
      await till.writer.drain()
      expect(hold.microcents).toBe(900n)
      state.fault = 'none'
      expect(clock.pending).toBe(1)
      await clock.turn(500)
      await till.writer.drain()
      expect(hold.microcents).toBe(100n)
      // The rest is for others, without their asking.
      expect(await readFigures(house.database, organization, NOON_MS)).toMatchObject({ sharesMicrocents: 100n })
      expect(clock.pending).toBe(0)
      hold.release()
      expect(await callOnce(till, organization, 500n)).toBe('charged')
      await checkBooks(house.database)
    },
  )

  test('is shrunk though its process had no slot when the reclaim came: once it has it again', async () => {
    const { organization, clock, till, hold } = await house1000()
    await limit(organization, 500n, 'stop_running')
    till.owns = false
    till.comeIntoLineWithAll()
    await clock.turn(500)
    expect(hold.microcents).toBe(900n)
    till.owns = true
    till.forgetShares()
    await clock.turn(500)
    await till.writer.drain()
    expect(hold.microcents).toBe(100n)
    hold.release()
    till.owns = false
    till.comeIntoLineWithAll()
    expect(clock.pending).toBe(0)
  })

  test('is shrunk by any renewal that sees the gate passed, and what that frees is for others', async () => {
    const { organization, till, hold } = await house1000()
    await limit(organization, 500n, 'stop_running')
    expect(await callOnce(till, organization, 400n)).toBe('charged')
    expect(hold.microcents).toBe(100n)
    hold.release()
  })

  test.each(['block_launch', 'notify_only'] as const)('is not shrunk under %s', async (enforcement) => {
    const { organization, till, hold } = await house1000()
    await limit(organization, 500n, enforcement)
    till.hearChange(organization)
    await till.writer.drain()
    expect(hold.microcents).toBe(900n)
    hold.release()
  })

  test('is not shrunk while no gate is passed', async () => {
    const { organization, till, hold } = await house1000()
    await limit(organization, 900n, 'stop_running')
    till.hearChange(organization)
    await till.writer.drain()
    expect(hold.microcents).toBe(900n)
    hold.release()
  })

  test('is not shrunk once its charge is known, which is what it came to', async () => {
    const { organization, till, admitted, hold } = await house1000()
    const usage = { promptTokens: 700, cachedPromptTokens: 0, completionTokens: 0 }
    const bound = { promptTokens: 1_000, completionTokens: 0, totalTokens: 1_000 }
    const delivered = { usage, estimated: false, target: 'mock/test', outcome: 'completed' } as const
    const prepared = await prepare(till, admitted, chatTerms(PRICE, bound), delivered)
    // An answer that is kept is written now.
    await limit(organization, 500n, 'stop_running')
    till.hearChange(organization)
    await till.writer.drain()
    expect(hold.microcents).toBe(900n)
    expect(await commit(till, prepared)).toEqual({ kind: 'posted' })
    expect(await house.spent(organization)).toEqual({ microcents: 700n, charges: 1 })
    await checkBooks(house.database)
  })
})

test('a call is shrunk by a process that is not in the new day yet, when the limit of that is lowered', async () => {
  const organization = await house.organization(10_000n)
  const lateEvening = Date.UTC(2030, 0, 15, 23, 59, 59, 500)
  const behind = openTill(house.database, 0, new TurnedClock(lateEvening))
  const ahead = openTill(house.database, 1, new TurnedClock(lateEvening + SECOND_MS))
  await limit(organization, 1_000n, 'stop_running')
  const { hold } = await running(organization, behind)
  expect(await callOnce(ahead, organization, 10n)).toBe('charged')
  await limit(organization, 500n, 'stop_running')
  behind.hearChange(organization)
  await behind.writer.drain()
  expect(hold.microcents).toBe(100n)
  // It still gets nothing of the new day's headroom.
  expect(behind.share(organization).account.headroom.daily).toBe(0n)
  expect(await callOnce(ahead, organization, 390n)).toBe('charged')
  hold.release()
  await checkBooks(house.database)
})

test('a debit that is posted never fails: processes are told again, and by its repeat', async () => {
  const organization = await house.organization(1_000n)
  const [amountMicrocents, source] = [-400n, `adjustment:${organization}`]
  const debit = { organizationId: organization, amountMicrocents, source, note: 'test', atMs: NOON_MS }
  // The transaction, and each try to tell.
  for (const [isPosted, faults] of [
    [true, ['none', 'before', 'none']],
    [false, ['none', 'none']],
    [false, ['none', 'before', 'before']],
  ] as const) {
    const left: Fault[] = [...faults]
    const database = withFaults(house.database, () => left.shift() ?? 'before')
    expect(await adjustBalance(database, systemRandom(), debit)).toBe(isPosted)
    expect(left).toEqual([])
  }
  expect(await readBalance(house.database, organization)).toBe(600n)
})
