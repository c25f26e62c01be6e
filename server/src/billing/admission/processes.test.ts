import { afterAll, beforeAll, expect, test } from 'bun:test'
import { admitCall } from '../../../test/admitCall.ts'
import {
  CALL,
  callOnce,
  checkFigures,
  checkHeadroom,
  HoppingClock,
  mostInAnHour,
  openTills,
  raceGates,
  spentByDay,
} from '../../../test/moneyGates.ts'
import { FastClock, type Fault, type House, openHouse, openTill, withFaults } from '../../../test/moneyHouse.ts'
import { checkBooks } from '../../../test/moneyRaces.ts'
import { turnedDatabase } from '../../../test/turnedDatabase.ts'
import { DAY_MS, MINUTE_MS } from '../../lib/time.ts'
import { grantCredit } from '../ledger/grantCredit.ts'
import { setLimit } from './accounts/limit.ts'
import { extendHold } from './admit.ts'
import { Hold } from './share.ts'
import { foldSlot } from './slots/foldSlot.ts'

const SEEDS = 12
const NOON_MS = Date.UTC(2030, 0, 15, 12)

/** The 2 s that calls wait are 200 ms: enough for a busy database to answer in. */
const fast = new FastClock(NOON_MS, 10)
let house: House
beforeAll(async () => {
  house = await openHouse(fast)
})
afterAll(() => house.drop())

const limit = (organization: string, daily: bigint, enforcement: 'block_launch' | 'stop_running' = 'block_launch') =>
  setLimit(house.database, organization, {
    monthlyMicrocents: 1_000_000n,
    dailyMicrocents: daily,
    enforcement,
    autoTerminateHours: undefined,
  })

for (let seed = 1; seed <= SEEDS; seed += 1) {
  test(`no window is spent past its limit, whoever spends (seed ${seed})`, async () => {
    const { charged } = await raceGates(house, seed)
    expect(charged).toBeGreaterThan(0)
    await checkBooks(house.database)
  })
}

for (const gate of ['balance', 'daily'] as const) {
  test(`a ${gate} for exactly 50 calls charges exactly 50 of 200 over 4 processes, when clients try again`, async () => {
    const organization = await house.organization(gate === 'balance' ? 5_000n : 1_000_000n)
    if (gate === 'daily') await limit(organization, 5_000n)
    const tills = openTills(house, [0, 1, 2, 3], fast)
    const client = async (number: number) => {
      for (let tries = 0; tries < 3; tries += 1) {
        const till = tills[(number + tries) % 4]
        if (till === undefined) continue
        const answer = await callOnce(till, organization, 100n, async () => {
          await house.database.query('select 1')
        })
        if (answer === 'charged') return 1
      }
      return 0
    }
    const charged = await Promise.all(Array.from({ length: 200 }, (_, number) => client(number)))
    expect(charged.reduce<number>((sum, each) => sum + each, 0)).toBe(50)
    expect(await house.spent(organization)).toEqual({ microcents: 5_000n, charges: 50 })
    await checkFigures(house, organization, fast.now())
    expect(tills.map((till) => till.waitingCalls)).toEqual([0, 0, 0, 0])
  })
}

test('money that other processes hold idle is reclaimed for a call that needs it', async () => {
  const organization = await house.organization(1_000n)
  const [one, two, three] = openTills(house, [0, 1, 2], fast)
  if (!one || !two || !three) throw new Error('no tills')
  expect(await callOnce(one, organization, 10n)).toBe('charged')
  expect(await callOnce(two, organization, 10n)).toBe('charged')
  expect(one.share(organization).spendableMicrocents + two.share(organization).spendableMicrocents).toBeGreaterThan(
    300n,
  )
  expect(await callOnce(three, organization, 975n)).toBe('charged')
  expect(await house.spent(organization)).toEqual({ microcents: 995n, charges: 3 })
  await checkBooks(house.database)
})

test('a reclaim is answered while something may be granted here, also by an answer that was lost, and then no more', async () => {
  const organization = await house.organization(1_000n)
  let fault: Fault = 'none'
  let questions = 0
  const asked = withFaults(house.database, () => {
    questions += 1
    return fault
  })
  const till = openTill(asked, 0, fast)
  const reclaim = async () => {
    const before = questions
    till.hearReclaim(organization)
    while (till.share(organization).openAsks > 0) await new Promise((resolve) => setImmediate(resolve))
    return questions - before
  }
  const granted = async () => {
    const [row] = await house.database.query<{ granted: bigint }>(
      'select coalesce(sum(granted_microcents), 0)::bigint as granted from account_shares where organization_id = $1',
      [organization],
    )
    return row?.granted
  }
  expect(await reclaim()).toBe(0)
  expect(await callOnce(till, organization, 10n)).toBe('charged')
  expect([await reclaim(), await granted(), await reclaim()]).toEqual([1, 0n, 0])

  fault = 'after'
  await expect(till.writer.renew(till.share(organization), 100n)).rejects.toThrow('nobody knows')
  fault = 'none'
  expect(await granted()).toBeGreaterThan(0n)
  // The first tells the process what it was granted; it gives that back by the next.
  expect(await reclaim()).toBe(1)
  expect([await reclaim(), await granted(), await reclaim()]).toEqual([1, 0n, 0])
})

test('a refusal that can not change is given at once, and names the first gate that is short', async () => {
  const till = openTills(house, [0], fast)[0]
  if (!till) throw new Error('no till')
  const broke = await house.organization(50n)
  await limit(broke, 20n)
  const ask = async (organizationId: string, cost: bigint) => {
    const answer = await admitCall(
      till,
      { organizationId, ...CALL },
      {
        wholeMicrocents: cost,
        firstStepMicrocents: cost,
      },
    )
    return answer.ok ? 'admitted' : `${answer.refusal.code}: ${answer.refusal.message}`
  }
  expect(await ask(broke, 60n)).toMatch(/^insufficient_balance/)
  expect(await ask(broke, 30n)).toMatch(/^quota_exceeded: The daily spending limit/)
  await setLimit(house.database, broke, {
    monthlyMicrocents: 25n,
    dailyMicrocents: 0n,
    enforcement: undefined,
    autoTerminateHours: undefined,
  })
  expect(await ask(broke, 30n)).toMatch(/^quota_exceeded: The monthly spending limit/)
  const fresh = await house.organization(5_000_000_000n, { newSinceMs: fast.now() })
  expect(await ask(fresh, 2_000_000_001n)).toMatch(/^quota_exceeded: The spending cap of new accounts/)
  expect(await ask(fresh, 2_000_000_000n)).toBe('admitted')
})

test('the headroom that a renewal reports is what the pure rules make of the figures', async () => {
  const till = openTills(house, [0], fast)[0]
  if (!till) throw new Error('no till')
  for (const [daily, isNew] of [
    [700n, false],
    [0n, false],
    [900n, true],
  ] as const) {
    const organization = await house.organization(5_000n, isNew ? { newSinceMs: fast.now() } : {})
    await limit(organization, daily)
    await callOnce(till, organization, 70n)
    await checkHeadroom(house, till, organization)
  }
})

test('a new organization spends $20 in any 60 minutes, and more once it is old enough or has paid', async () => {
  const clock = new HoppingClock(NOON_MS, 10)
  const till = openTills(house, [0], clock)[0]
  if (!till) throw new Error('no till')
  const dollar = 100_000_000n
  const organization = await house.organization(1_000n * dollar, { newSinceMs: clock.now() })
  const spend = async () => {
    let calls = 0
    while ((await callOnce(till, organization, dollar)) === 'charged') calls += 1
    return calls
  }
  expect(await spend()).toBe(20)
  clock.aheadMs += 58 * MINUTE_MS
  expect(await spend()).toBe(0)
  clock.aheadMs += 4 * MINUTE_MS
  expect(await spend()).toBe(20)
  expect(await mostInAnHour(house, organization)).toBe(20n * dollar)
  await house.database.transaction((tx) =>
    grantCredit(tx, till.random, {
      organizationId: organization,
      amountMicrocents: dollar,
      source: `gift:${organization}`,
      note: null,
      isPayment: false,
      atMs: clock.now(),
    }),
  )
  expect(await spend()).toBe(0)
  clock.aheadMs += 7 * DAY_MS
  const after = await Promise.all(Array.from({ length: 30 }, () => callOnce(till, organization, dollar)))
  expect(after.filter((answer) => answer === 'charged')).toHaveLength(30)
  const payer = await house.organization(100n * dollar, { newSinceMs: clock.now() })
  const pays = { organizationId: payer, amountMicrocents: dollar, note: null, isPayment: true, atMs: clock.now() }
  await house.database.transaction((tx) => grantCredit(tx, till.random, { ...pays, source: `payment:${payer}` }))
  const paid = await Promise.all(Array.from({ length: 30 }, () => callOnce(till, payer, dollar)))
  expect(paid.filter((answer) => answer === 'charged')).toHaveLength(30)
  await checkBooks(house.database)
})

test('a limit lowered in mid-load takes back what lies idle: nothing begins any more, and what runs goes on', async () => {
  const organization = await house.organization(1_000_000n)
  await limit(organization, 100_000n)
  const tills = openTills(house, [0, 1, 2], fast)
  let begun = 0
  let isOver = false
  const load = async (till: (typeof tills)[number]) => {
    while (!isOver) {
      await callOnce(till, organization, 50n, async () => {
        begun += 1
        await house.database.query('select 1')
      })
    }
  }
  const loads = tills.flatMap((till) => Array.from({ length: 5 }, () => load(till)))
  while (begun < 60) await house.database.query('select 1')
  await limit(organization, 1_000n)
  for (const till of tills) till.hearChange(organization)
  await Promise.all(tills.map((till) => till.writer.renew(till.share(organization), 0n, { kind: 'give_back' })))
  const begunInTime = begun
  for (let wait = 0; wait < 50; wait += 1) await house.database.query('select 1')
  isOver = true
  await Promise.all(loads)
  expect(begun).toBe(begunInTime)
  expect(await house.spent(organization)).toEqual({ microcents: 50n * BigInt(begun), charges: begun })
  await checkFigures(house, organization, fast.now())
})

test('running calls pass a limit that only blocks new calls, never the balance, and are cut by one that stops them', async () => {
  const till = openTills(house, [0], fast)[0]
  if (!till) throw new Error('no till')
  for (const [enforcement, outcome] of [
    ['block_launch', 'extended'],
    ['stop_running', 'daily'],
  ] as const) {
    const organization = await house.organization(1_000n)
    await limit(organization, 100n, enforcement)
    const share = till.share(organization)
    const taken = await admitCall(
      till,
      { organizationId: organization, ...CALL },
      {
        wholeMicrocents: 90n,
        firstStepMicrocents: 90n,
      },
    )
    if (!taken.ok) throw new Error('refused')
    const { hold } = taken.value
    expect(await extendHold(till, hold, share, 400n)).toBe(outcome)
    // An amount that was granted to a running call past the limit is for nobody else.
    expect(await callOnce(till, organization, 11n)).toBe('quota_exceeded')
    expect(await extendHold(till, hold, share, 1_001n)).toBe('balance')
    hold.release()
    expect(await callOnce(till, organization, 5n)).toBe('charged')
  }
})

test('a limit that is used up says so to running calls where it stops them', async () => {
  const till = openTills(house, [0], fast)[0]
  if (!till) throw new Error('no till')
  const organization = await house.organization(1_000n)
  await limit(organization, 500n, 'stop_running')
  expect(await callOnce(till, organization, 100n)).toBe('charged')
  const share = till.share(organization)
  const running = new Hold(share, 10n)
  await limit(organization, 100n, 'stop_running')
  till.hearChange(organization)
  await till.writer.drain()
  expect(share.exhaustedLimit).toBe('daily')
  running.release()
})

test('a charge of yesterday that comes late counts to yesterday, and a zombie’s to its own minute', async () => {
  const clock = new HoppingClock(Date.UTC(2030, 2, 31, 23, 59), 10)
  const [one, zombie] = openTills(house, [0, 70], clock)
  if (!one || !zombie) throw new Error('no tills')
  const organization = await house.organization(10_000n)
  await limit(organization, 300n)
  const late = await admitCall(
    zombie,
    { organizationId: organization, ...CALL },
    {
      wholeMicrocents: 200n,
      firstStepMicrocents: 200n,
    },
  )
  if (!late.ok) throw new Error('refused')
  clock.aheadMs += 2 * MINUTE_MS
  await turnedDatabase(house.database, clock).transaction((tx) => foldSlot(tx, 70, clock.now()))
  expect(await callOnce(one, organization, 250n)).toBe('charged')
  await zombie.writer.post(house.charge(organization, 200n, late.value.admission), zombie.share(organization))
  late.value.hold.release()
  await checkFigures(house, organization, clock.now())
  await turnedDatabase(house.database, clock).transaction((tx) => foldSlot(tx, 70, clock.now()))
  await checkFigures(house, organization, clock.now())
  expect(await spentByDay(house, organization)).toEqual(
    new Map([
      ['2030-03-31', 200n],
      ['2030-04-01', 250n],
    ]),
  )
  expect(await callOnce(one, organization, 51n)).toBe('quota_exceeded')
  expect(await callOnce(one, organization, 50n)).toBe('charged')
})

test('a share that nobody uses gives back what it has and is forgotten', async () => {
  const clock = new HoppingClock(NOON_MS, 10)
  const till = openTills(house, [0], clock)[0]
  if (!till) throw new Error('no till')
  const [idle, busy] = [await house.organization(1_000n), await house.organization(1_000n)]
  await callOnce(till, idle, 10n)
  const running = await admitCall(
    till,
    { organizationId: busy, ...CALL },
    {
      wholeMicrocents: 0n,
      firstStepMicrocents: 0n,
    },
  )
  await till.dropIdle()
  expect(till.shares.size).toBe(2)
  // However far its date was set back meanwhile.
  clock.aheadMs -= 40 * DAY_MS
  for (const share of till.shares.values()) share.usedAtMs -= 2 * MINUTE_MS
  await till.dropIdle()
  expect([...till.shares.keys()]).toEqual([busy])
  const rows = await house.database.query<{ granted: bigint }>(
    'select shares_microcents as granted from accounts where organization_id = $1::uuid',
    [idle],
  )
  expect(rows).toEqual([{ granted: 0n }])
  if (running.ok) running.value.hold.release()
  expect(await callOnce(till, idle, 990n)).toBe('charged')
  await till.writer.drain()
})

test.each(['hearReclaim', 'hearChange'] as const)(
  'a share whose giving back is under way is not forgotten: where that fails, the next rounds give it back (%s)',
  async (hear) => {
    const organization = await house.organization(1_000n)
    let hears: (() => void) | null = null
    let fails = false
    const database = withFaults(house.database, () => {
      const fault = fails ? 'before' : 'none'
      fails = hears !== null
      hears?.()
      hears = null
      return fault
    })
    const [till] = openTills({ ...house, database }, [0], fast)
    if (!till) throw new Error('no till')
    expect(await callOnce(till, organization, 10n)).toBe('charged')
    await till.writer.drain()
    // It had lost its slot and has it again: the account says that it has the grant, the share does not.
    till.forgetShares()
    for (const share of till.shares.values()) share.usedAtMs -= 2 * MINUTE_MS
    // A reclaim comes while the round asks the account, and its own statement never arrives.
    hears = () => till[hear](organization)
    await till.dropIdle()
    await till.writer.drain()
    for (let round = 0; round < 3; round += 1) await till.dropIdle()
    expect(till.shares.size).toBe(0)
    const rows = await house.database.query<{ granted: bigint }>(
      'select shares_microcents as granted from accounts where organization_id = $1::uuid',
      [organization],
    )
    expect(rows).toEqual([{ granted: 0n }])
  },
)
