import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { admitCall } from '../../../test/admitCall.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { CALL, callOnce, HoppingClock } from '../../../test/moneyGates.ts'
import { type House, openHouse, openTill, type Till } from '../../../test/moneyHouse.ts'
import { settleCall } from '../../../test/settleCall.ts'
import { until } from '../../../test/until.ts'
import { DAY_MS, MINUTE_MS } from '../../lib/time.ts'
import { setLimit } from './accounts/limit.ts'
import type { Enforcement } from './gates.ts'
import { foldSlot } from './slots/foldSlot.ts'
import type { SendReclaim } from './wants.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)
const LOW = 100n

/** The 2 s that calls wait are 200 ms. */
let clock = new HoppingClock(NOON_MS, 10)
let house: House
beforeAll(async () => {
  house = await openHouse(clock, { now: () => clock.now() })
})
afterAll(() => house.drop())
beforeEach(async () => {
  await house.database.query('delete from notices')
  clock = new HoppingClock(NOON_MS, 10)
})

const limit = (organizationId: string, daily: bigint, enforcement: Enforcement, monthly = 1_000_000n) =>
  setLimit(house.database, organizationId, {
    monthlyMicrocents: monthly,
    dailyMicrocents: daily,
    enforcement,
    autoTerminateHours: undefined,
  })

/** As many processes, each hearing the reclaims of all. */
function tills(count: number): Till[] {
  const all: Till[] = []
  const reclaim: SendReclaim = (organizationId, from) =>
    void setImmediate(() => {
      for (const till of all) till[from === 'all' ? 'hearChange' : 'hearReclaim'](organizationId)
    })
  for (let slot = 0; slot < count; slot += 1) all.push(openTill(house.database, slot, clock, reclaim, LOW))
  return all
}

const told = (organizationId: string) =>
  house.database.query<{ kind: string; day: string; amount: bigint; bound: bigint }>(
    `select kind, to_char(period at time zone 'UTC', 'YYYY-MM-DD') as day, amount_microcents as amount,
       limit_microcents as bound from notices where organization_id = $1::uuid order by period, kind`,
    [organizationId],
  )

/** Everything idle is given back and folded, as it is a minute after the last call. */
async function rest(...all: Till[]): Promise<void> {
  clock.aheadMs += 2 * MINUTE_MS
  for (const till of all) {
    await till.writer.drain()
    for (const share of till.shares.values()) share.usedAtMs -= 2 * MINUTE_MS
    await till.dropIdle()
  }
}

describe.each(['block_launch', 'stop_running', 'notify_only'] as const)('a daily limit under %s', (enforcement) => {
  test('is told once a day, whoever reaches it and however often', async () => {
    const organization = await house.organization(1_000_000n)
    await limit(organization, 50n, enforcement)
    const [one, two] = tills(2)
    if (one === undefined || two === undefined) throw new Error('no tills')
    for (let call = 0; call < 4; call += 1) await callOnce(one, organization, 10n)
    await rest(one, two)
    expect(await told(organization)).toEqual([])
    await callOnce(two, organization, 10n)
    const late = await Promise.all([one, two, one, two].map((till) => callOnce(till, organization, 10n)))
    expect(late.every((answer) => (answer === 'charged') === (enforcement === 'notify_only'))).toBe(true)
    await rest(one, two)
    const [first, ...more] = await told(organization)
    expect([first?.kind, first?.day, first?.bound, more]).toEqual(['daily', '2030-01-15', 50n, []])
    expect(first?.amount).toBeGreaterThanOrEqual(50n)
    clock.aheadMs += DAY_MS
    for (let call = 0; call < 6; call += 1) await callOnce(one, organization, 10n)
    await rest(one, two)
    // A refusal notes a limit beside its answer.
    await until(async () => (await told(organization)).length > 1)
    expect((await told(organization)).map(({ day }) => day)).toEqual(['2030-01-15', '2030-01-16'])
  })
})

test('a limit that leaves too little for a call is told when it refuses one', async () => {
  const organization = await house.organization(1_000_000n)
  await limit(organization, 55n, 'block_launch')
  const [till] = tills(1)
  if (till === undefined) throw new Error('no till')
  for (let call = 0; call < 5; call += 1) expect(await callOnce(till, organization, 10n)).toBe('charged')
  expect(await told(organization)).toEqual([])
  for (let call = 0; call < 3; call += 1) expect(await callOnce(till, organization, 10n)).toBe('quota_exceeded')
  // The refusal is answered first, and noted beside it.
  while ((await told(organization)).length === 0) await house.database.query('select 1')
  expect(await told(organization)).toEqual([{ kind: 'daily', day: '2030-01-15', amount: 50n, bound: 55n }])
})

test('a process that holds much of the account is asked for it before a limit that only notifies is passed unseen', async () => {
  const organization = await house.organization(1_000_000n)
  await limit(organization, 10_000n, 'notify_only')
  const [holder, other] = tills(2)
  if (holder === undefined || other === undefined) throw new Error('no tills')
  await callOnce(holder, organization, 9_000n)
  const before = holder.share(organization).grantedMicrocents
  expect(before).toBeLessThanOrEqual(10_000n)
  await callOnce(other, organization, 1_500n)
  // Nobody rests, and the holder is not called again: it folds because it is asked to.
  for (let call = 0; call < 50 && (await told(organization)).length === 0; call += 1) {
    await callOnce(other, organization, 10n)
  }
  expect(await told(organization)).toMatchObject([{ kind: 'daily', bound: 10_000n }])
})

test('a grant of the day before does not hide that a limit of the new day is passed', async () => {
  const organization = await house.organization(1_000_000n)
  await limit(organization, 50n, 'notify_only')
  const [one, two] = tills(2)
  if (one === undefined || two === undefined) throw new Error('no tills')
  for (const till of [one, two]) await callOnce(till, organization, 100n)
  // Nothing is ahead of which somebody must be told, so that each is granted much.
  for (const till of [one, two]) await callOnce(till, organization, 50_000n)
  for (const till of [one, two]) expect(till.share(organization).spendableMicrocents).toBeGreaterThan(50_000n)
  clock.aheadMs += DAY_MS
  // Nobody rests, and nobody is short.
  for (let call = 0; call < 50 && (await told(organization)).length === 1; call += 1) {
    for (const till of [one, two]) await callOnce(till, organization, 10n)
  }
  expect((await told(organization)).map(({ day }) => day)).toEqual(['2030-01-15', '2030-01-16'])
})

test('the limit of a day that is over is told, by the process that folds the last of its spend', async () => {
  const organization = await house.organization(1_000_000n)
  await limit(organization, 50n, 'notify_only', 60n)
  // Neither hears a reclaim.
  const [one, two] = [0, 1].map((slot) => openTill(house.database, slot, clock, () => {}, LOW))
  if (one === undefined || two === undefined) throw new Error('no tills')
  clock.aheadMs = Date.UTC(2030, 0, 31, 23, 59) - NOON_MS
  await callOnce(one, organization, 40n)
  await callOnce(two, organization, 20n)
  expect(await told(organization)).toEqual([])
  clock.aheadMs += 5 * MINUTE_MS
  // The first dies; its slot is folded with what it spent on the day before.
  await two.dropIdle()
  await house.database.transaction((tx) => foldSlot(tx, 0, clock.now(), { lowBalanceMicrocents: LOW }))
  expect(await told(organization)).toEqual([
    { kind: 'monthly', day: '2030-01-01', amount: 60n, bound: 60n },
    { kind: 'daily', day: '2030-01-31', amount: 60n, bound: 50n },
  ])
})

test('a limit that is set after a day, whose spend was above it by then, is not told of that day', async () => {
  const organization = await house.organization(1_000_000n)
  const [one, two] = [0, 1].map((slot) => openTill(house.database, slot, clock, () => {}, LOW))
  if (one === undefined || two === undefined) throw new Error('no tills')
  const fold = (slot: number) =>
    house.database.transaction((tx) => foldSlot(tx, slot, clock.now(), { lowBalanceMicrocents: LOW }))
  clock.aheadMs = Date.UTC(2030, 0, 31, 23, 59) - NOON_MS
  await callOnce(one, organization, 60n)
  await fold(0)
  await callOnce(two, organization, 5n)
  clock.aheadMs += 5 * MINUTE_MS
  await limit(organization, 50n, 'notify_only', 60n)
  await fold(1)
  expect(await told(organization)).toEqual([])
})

describe('a low balance', () => {
  test('is told once, and once again after a payment has lifted it', async () => {
    const organization = await house.organization(300n)
    const [one, two] = tills(2)
    if (one === undefined || two === undefined) throw new Error('no tills')
    await callOnce(one, organization, 150n)
    await rest(one, two)
    expect(await told(organization)).toEqual([])
    await Promise.all([callOnce(one, organization, 30n), callOnce(two, organization, 30n)])
    await rest(one, two)
    await callOnce(two, organization, 10n)
    await rest(one, two)
    expect(await told(organization)).toMatchObject([{ kind: 'low_balance', bound: LOW }])
    // Too little to lift it: nothing new.
    await house.grant(organization, 5n)
    await callOnce(one, organization, 10n)
    await rest(one, two)
    expect(await told(organization)).toHaveLength(1)
    await house.grant(organization, 300n)
    await callOnce(one, organization, 10n)
    await rest(one, two)
    expect(await told(organization)).toHaveLength(1)
    await callOnce(one, organization, 300n)
    await rest(one, two)
    expect(await told(organization)).toHaveLength(2)
  })

  test('is known to a process whose call holds all that it has, once another one was granted beyond it', async () => {
    const organization = await house.organization(300n)
    const [holder, other] = tills(2)
    if (holder === undefined || other === undefined) throw new Error('no tills')
    const worst = { wholeMicrocents: 200n, firstStepMicrocents: 200n }
    const taken = await admitCall(holder, { organizationId: organization, ...CALL }, worst)
    if (!taken.ok) throw new Error('refused')
    const share = holder.share(organization)
    expect([share.grantedMicrocents, share.reachesNotice]).toEqual([200n, false])
    expect(await callOnce(other, organization, 50n)).toBe('charged')
    await until(() => share.reachesNotice)
    taken.value.hold.release()
  })

  test('is told within a minute, also while what was granted beyond it lasts for calls', async () => {
    const organization = await house.organization(150n)
    const [till] = tills(1)
    if (till === undefined) throw new Error('no till')
    const worst = { wholeMicrocents: 140n, firstStepMicrocents: 140n }
    const admitted = await admitCall(till, { organizationId: organization, ...CALL }, worst)
    if (!admitted.ok) throw new Error(admitted.refusal.message)
    const usage = { promptTokens: 60, cachedPromptTokens: 0, completionTokens: 0 }
    const price = { inputMicrocents: 1_000_000n, outputMicrocents: 0n, cachedInputMicrocents: null }
    const ending = { usage, estimated: false, target: 'mock/test', outcome: 'completed' as const }
    await settleCall(till, admitted.value, price, ending)
    await callOnce(till, organization, 5n)
    expect(await told(organization)).toEqual([])
    await till.dropIdle()
    expect(await told(organization)).toMatchObject([{ kind: 'low_balance', amount: 85n }])
  })

  test('is not told of an account that never had anything, nor without a threshold', async () => {
    const organization = await house.organization(0n)
    const [till] = tills(1)
    if (till === undefined) throw new Error('no till')
    expect(await callOnce(till, organization, 10n)).toBe('insufficient_balance')
    const other = await house.organization(300n)
    const careless = openTill(house.database, 9, clock)
    await callOnce(careless, other, 290n)
    await rest(careless)
    expect([...(await told(organization)), ...(await told(other))]).toEqual([])
  })
})

test('a reclaim of idle money holds up none that all processes must hear', async () => {
  const organization = await house.organization(300n)
  const sent: string[] = []
  const till = openTill(house.database, 0, new TurnedClock(NOON_MS), (_, from) => sent.push(from), LOW)
  const share = till.share(organization)
  till.hearReclaim(organization)
  till.reclaim(share)
  expect(sent).toEqual([])
  till.reclaim(share, 'all')
  till.reclaim(share, 'all')
  till.reclaim(share)
  expect(sent).toEqual(['all'])
  await till.writer.drain()
})

test('many processes that race past a limit and a low balance tell each once', async () => {
  const organization = await house.organization(2_000n)
  await limit(organization, 500n, 'notify_only')
  const all = tills(4)
  await Promise.all(
    Array.from({ length: 120 }, (_, index) => all[index % 4]).map(async (till) => {
      if (till !== undefined) await callOnce(till, organization, 16n)
    }),
  )
  await rest(...all)
  expect((await told(organization)).map(({ kind }) => kind).sort()).toEqual(['daily', 'low_balance'])
  expect(await house.imbalances()).toEqual([])
})

test('the cap of new organizations is told once a day', async () => {
  const organization = await house.organization(9_000_000_000n, { newSinceMs: clock.now() })
  const [till] = tills(1)
  if (till === undefined) throw new Error('no till')
  expect(await callOnce(till, organization, 2_000_000_000n)).toBe('charged')
  expect(await callOnce(till, organization, 10n)).toBe('quota_exceeded')
  expect(await told(organization)).toMatchObject([{ kind: 'new_account', day: '2030-01-15', bound: 2_000_000_000n }])
})
