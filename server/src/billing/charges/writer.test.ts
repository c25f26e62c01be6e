import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { seeded } from '../../../test/faults/seeded.ts'
import { FastClock, type Fault, type House, openHouse, openTill, withFaults } from '../../../test/moneyHouse.ts'
import { DAY_MS, SECOND_MS } from '../../lib/time.ts'
import { readBalance } from '../admission/balance/balance.ts'

const NOON_MS = Date.UTC(2030, 0, 15, 12)

let house: House
const clock = new TurnedClock(NOON_MS)
beforeAll(async () => {
  house = await openHouse(clock)
})
afterAll(() => house.drop())

/** Turns the clock until `done` settles: retries wait for it, the database does not. */
async function turnUntil<T>(turned: TurnedClock, done: Promise<T>): Promise<T> {
  let isSettled = false
  const mark = () => {
    isSettled = true
  }
  done.then(mark, mark)
  while (!isSettled) await turned.turn(5)
  return done
}

test('one charge after the other is posted, whatever the caller does in between', async () => {
  const organization = await house.organization(1_000n)
  const { writer, share } = openTill(house.database, 0, clock)
  for (let hops = 0; hops < 12; hops += 1) {
    await writer.post(house.charge(organization, 1n), share(organization))
    // The next call may finish any number of microtasks later, also while the writer is just coming to rest.
    for (let hop = 0; hop < hops; hop += 1) await null
  }
  expect(await house.spent(organization)).toEqual({ microcents: 12n, charges: 12 })
})

test('charges that finish together are posted together, more than one batch of them too', async () => {
  const organization = await house.organization(1_000_000n)
  let statements = 0
  const counted = withFaults(house.database, () => {
    statements += 1
    return 'none'
  })
  const { writer, share } = openTill(counted, 0, clock)
  await Promise.all(
    Array.from({ length: 1_200 }, () => writer.post(house.charge(organization, 7n), share(organization))),
  )
  expect(await house.spent(organization)).toEqual({ microcents: 8_400n, charges: 1_200 })
  // One for the partition, one for what they have in common, and three batches.
  expect(statements).toBeLessThanOrEqual(5)
  expect(await readBalance(house.database, organization)).toBe(991_600n)
  expect(await house.imbalances()).toEqual([])
})

test('rollups say what charges say', async () => {
  const organization = await house.organization(1_000_000n)
  const { writer, share } = openTill(house.database, 0, clock)
  const later = { admittedAtMs: NOON_MS + 3_600_000, tier: 'economy' } as const
  for (let round = 0; round < 3; round += 1) {
    await Promise.all(
      [{}, {}, later].map((more) => writer.post(house.charge(organization, 5n, more), share(organization))),
    )
  }
  const rollups = await house.database.query(
    `select hour, tier, requests, prompt_tokens, cached_prompt_tokens, completion_tokens, cost_microcents
     from usage_hours where organization_id = $1::uuid order by hour`,
    [organization],
  )
  const row = (hourMs: number, tier: string, requests: bigint) => ({
    hour: new Date(hourMs),
    tier,
    requests,
    prompt_tokens: 3n * requests,
    cached_prompt_tokens: requests,
    completion_tokens: 2n * requests,
    cost_microcents: 5n * requests,
  })
  expect(rollups).toEqual([row(NOON_MS, 'serverless', 6n), row(NOON_MS + 3_600_000, 'economy', 3n)])
})

test('the sum of a day is kept with its hours, over midnight too, whatever is posted twice', async () => {
  const organization = await house.organization(1_000n)
  const { writer, share } = openTill(house.database, 5, clock)
  const midnightMs = Date.parse('2030-01-16T00:00:00Z')
  const charges = [-1, 0, 3_600_000].map((after) =>
    house.charge(organization, 5n, { admittedAtMs: midnightMs + after }),
  )
  const again = [...charges, ...charges.slice(0, 2)]
  await Promise.all(again.map((charge) => writer.post(charge, share(organization))))
  const days = await house.database.query(
    `select day, requests, cost_microcents from usage_days where organization_id = $1::uuid order by day`,
    [organization],
  )
  const dayBefore = new Date(Date.parse('2030-01-15T00:00:00Z'))
  expect(days).toEqual([
    { day: dayBefore, requests: 1n, cost_microcents: 5n },
    { day: new Date(midnightMs), requests: 2n, cost_microcents: 10n },
  ])
})

test('a charge that is posted twice counts once: row, balance and rollup', async () => {
  const organization = await house.organization(1_000n)
  const { writer, share } = openTill(house.database, 0, clock)
  const charge = house.charge(organization, 10n)
  await Promise.all([writer.post(charge, share(organization)), writer.post(charge, share(organization))])
  await writer.post(charge, share(organization))
  expect(await house.spent(organization)).toEqual({ microcents: 10n, charges: 1 })
  expect(await readBalance(house.database, organization)).toBe(990n)
  const rollups = await house.database.query<{ requests: bigint }>(
    'select requests from usage_hours where organization_id = $1::uuid',
    [organization],
  )
  expect(rollups).toEqual([{ requests: 1n }])
  expect(await house.imbalances()).toEqual([])
})

test('several organizations are renewed in one transaction, each with what it has', async () => {
  const rich = await house.organization(1_000_000n)
  const poor = await house.organization(30n)
  const broke = await house.organization(0n)
  let transactions = 0
  const counted = withFaults(house.database, () => {
    transactions += 1
    return 'none'
  })
  const { writer, share } = openTill(counted, 3, clock)
  await Promise.all([
    writer.renew(share(rich), 100n),
    writer.renew(share(rich), 100n),
    writer.renew(share(poor), 20n),
    writer.renew(share(broke), 20n),
  ])
  expect(transactions).toBe(1)
  expect(share(rich).spendableMicrocents).toBe(250_000n)
  expect(share(poor).spendableMicrocents).toBe(20n)
  expect(share(broke).spendableMicrocents).toBe(0n)
  // Asking again never takes more than there is.
  await writer.renew(share(poor), 1_000n)
  expect(share(poor).spendableMicrocents).toBe(30n)
  expect(await house.imbalances()).toEqual([])
})

test('money that several calls want at once is granted to all of them', async () => {
  const organization = await house.organization(100n)
  const { writer, share } = openTill(house.database, 4, clock)
  await writer.renew(share(organization), 25n)
  expect(share(organization).spendableMicrocents).toBe(25n)
  await Promise.all([1, 2, 3].map(() => writer.renew(share(organization), 30n)))
  expect(share(organization).spendableMicrocents).toBeGreaterThanOrEqual(90n)
})

for (const fault of ['before', 'after'] as const) {
  test(`a commit that fails ${fault} the database has it is tried again until it is known, and counts once`, async () => {
    const turned = new TurnedClock(NOON_MS)
    const organization = await house.organization(1_000n)
    let away = true
    const database = withFaults(house.database, () => (away ? fault : 'none'))
    const { writer, share } = openTill(database, 5, turned)
    let answered = 0
    const posts = [1n, 2n, 3n].map((cost) =>
      writer.post(house.charge(organization, cost), share(organization)).then(() => {
        answered += 1
      }),
    )
    for (let step = 0; step < 10; step += 1) {
      await turned.turn(SECOND_MS)
      // Real input and output needs its time, which the turned clock does not give.
      await house.database.query('select 1')
    }
    expect(answered).toBe(0)
    expect(writer.backlog).toBe(3)
    expect(writer.oldestAgeMs).toBeGreaterThanOrEqual(10 * SECOND_MS)
    away = false
    await turnUntil(turned, Promise.all(posts))
    expect(writer.backlog).toBe(0)
    expect(writer.oldestAgeMs).toBe(0)
    expect(await house.spent(organization)).toEqual({ microcents: 6n, charges: 3 })
    expect(await house.imbalances()).toEqual([])
  })
}

test('while the database is away a renewal is refused rather than kept waiting', async () => {
  const organization = await house.organization(1_000n)
  const { writer, share } = openTill(
    withFaults(house.database, () => 'before'),
    5,
    clock,
  )
  await expect(writer.renew(share(organization), 1n)).rejects.toThrow('connection')
})

test('nor is it kept waiting behind a refused charge that cannot be kept', async () => {
  const turned = new TurnedClock(NOON_MS)
  const organization = await house.organization(1_000n)
  let isAway = false
  const database = withFaults(house.database, () => (isAway ? 'before' : 'none'))
  const { writer, share } = openTill(database, 5, turned)
  await writer.post(house.charge(organization, 1n), share(organization))
  const bad = writer.post(house.charge(organization, 5n, { outcome: 'unheard of' as 'cut' }), share(organization))
  // It goes away once the row was refused, and before it is kept.
  const { query } = database
  let asked = 0
  Object.assign(database, {
    query: (...given: Parameters<typeof query>) => {
      asked += 1
      isAway = asked > 1
      return query(...given)
    },
  })
  while (!isAway) await house.database.query('select 1')
  const renewal = writer.renew(share(organization), 1n).then(
    () => 'granted',
    () => 'refused',
  )
  let answer: string | null = null
  void renewal.then((how) => {
    answer = how
  })
  for (let look = 0; look < 50 && answer === null; look += 1) {
    await turned.turn(100)
    await house.database.query('select 1')
  }
  expect(answer as string | null).toBe('refused')
  Object.assign(database, { query })
  isAway = false
  await turnUntil(turned, bad)
})

test('a renewal whose answer was lost grants nothing here, and the next one takes it up', async () => {
  const organization = await house.organization(1_000n)
  let fault: Fault = 'after'
  const { writer, share } = openTill(
    withFaults(house.database, () => fault),
    6,
    clock,
  )
  await expect(writer.renew(share(organization), 600n)).rejects.toThrow('connection')
  expect(share(organization).spendableMicrocents).toBe(0n)
  fault = 'none'
  await writer.renew(share(organization), 1n)
  expect(share(organization).spendableMicrocents).toBeGreaterThanOrEqual(600n)
  expect(share(organization).spendableMicrocents).toBeLessThanOrEqual(1_000n)
  expect(await house.imbalances()).toEqual([])
})

test('rows that the database refuses are found and kept; all others are posted and all callers answered', async () => {
  const organization = await house.organization(1_000_000n)
  const till = openTill(house.database, 7, clock)
  const poison = [
    house.charge(organization, 1_000n, { usage: { promptTokens: 1, cachedPromptTokens: 2, completionTokens: 0 } }),
    house.charge(organization, 1_000n, { target: 'a\0b \ud800' }),
  ]
  const charges = Array.from({ length: 100 }, () => house.charge(organization, 3n))
  charges.splice(41, 0, ...poison.slice(0, 1))
  charges.splice(77, 0, ...poison.slice(1))
  const share = till.share(organization)
  await till.writer.renew(share, 10_000n)
  const before = share.spendableMicrocents
  share.unpostedMicrocents += charges.reduce((sum, { costMicrocents }) => sum + costMicrocents, 0n)
  await Promise.all(charges.map((charge) => till.writer.post(charge, share)))
  expect(await house.spent(organization)).toEqual({ microcents: 300n, charges: 100 })
  expect(till.dead.map(({ chargeId }) => chargeId)).toEqual(poison.map(({ chargeId }) => chargeId))
  // The customer pays nothing for them.
  expect(share.spendableMicrocents).toBe(before - 300n)
  const dead = await house.database.query<{ id: string; reason: string; cost: string }>(
    `select id, reason, charge->>'costMicrocents' as cost from dead_charges where charge->>'organizationId' = $1`,
    [organization],
  )
  expect(dead.map(({ id }) => id).sort()).toEqual(poison.map(({ chargeId }) => chargeId).sort())
  expect(dead.map(({ cost }) => cost)).toEqual(['1000', '1000'])
  expect(dead.every(({ reason }) => reason.length > 10)).toBe(true)
  expect(await house.imbalances()).toEqual([])
})

test('a row that is refused is kept also when the database goes away meanwhile', async () => {
  const fast = new FastClock(NOON_MS)
  const random = seeded(7)
  const organization = await house.organization(1_000n)
  const till = openTill(
    withFaults(house.database, () => random.pick(['none', 'none', 'before', 'after'])),
    7,
    fast,
  )
  const bad = house.charge(organization, 5n, { outcome: 'unheard of' as 'cut' })
  const good = house.charge(organization, 5n)
  await Promise.all([bad, good].map((charge) => till.writer.post(charge, till.share(organization))))
  expect(till.dead.map(({ chargeId }) => chargeId)).toEqual([bad.chargeId])
  expect(await house.spent(organization)).toEqual({ microcents: 5n, charges: 1 })
})

test('the partition of another day is made when a charge needs it', async () => {
  const organization = await house.organization(1_000n)
  const { writer, share } = openTill(house.database, 0, clock)
  const days = [-400, -1, 0, 1, 400]
  await Promise.all(
    days.map((day) =>
      writer.post(house.charge(organization, 1n, { admittedAtMs: NOON_MS + day * DAY_MS }), share(organization)),
    ),
  )
  expect(await house.spent(organization)).toEqual({ microcents: 5n, charges: 5 })
})

test('several processes may make the same partition at the same time', async () => {
  const organization = await house.organization(1_000n)
  const turned = new TurnedClock(NOON_MS)
  const tills = [0, 1, 2, 3].map((slot) => openTill(house.database, slot, turned))
  for (let day = 500; day < 510; day += 1) {
    const admittedAtMs = NOON_MS + day * DAY_MS
    const posted = tills.map((till) =>
      till.writer.post(house.charge(organization, 1n, { admittedAtMs }), till.share(organization)),
    )
    // On a busy machine one may wait for the others for too long, and tries again.
    await turnUntil(turned, Promise.all(posted))
  }
  expect(tills.flatMap(({ dead }) => dead)).toEqual([])
  expect(await house.spent(organization)).toEqual({ microcents: 40n, charges: 40 })
})

test('a charge admitted before midnight and tried again after it is posted once, on its own day', async () => {
  const turned = new TurnedClock(Date.UTC(2031, 4, 1) - 500)
  const organization = await house.organization(1_000n)
  let fault: Fault = 'after'
  const { writer, share } = openTill(
    withFaults(house.database, () => fault),
    8,
    turned,
  )
  const posted = writer.post(house.charge(organization, 9n, { admittedAtMs: turned.now() }), share(organization))
  for (let step = 0; step < 20; step += 1) {
    await turned.turn(100)
    await house.database.query('select 1')
  }
  fault = 'none'
  await turnUntil(turned, posted)
  expect(turned.now()).toBeGreaterThan(Date.UTC(2031, 4, 1))
  expect(await house.spent(organization)).toEqual({ microcents: 9n, charges: 1 })
  const rows = await house.database.query<{ there: string }>(
    'select tableoid::regclass::text as there from charges where organization_id = $1::uuid',
    [organization],
  )
  expect(rows).toEqual([{ there: 'charges_20310430' }])
})

test('drain waits for every charge, those that come while it waits too', async () => {
  const organization = await house.organization(1_000n)
  const { writer, share } = openTill(house.database, 0, clock)
  void writer.post(house.charge(organization, 1n), share(organization)).then(() => {
    void writer.post(house.charge(organization, 1n), share(organization))
  })
  await writer.drain()
  expect(writer.backlog).toBe(0)
  expect(await house.spent(organization)).toEqual({ microcents: 2n, charges: 2 })
  await writer.drain()
})

test('a charge whose day has lost its partition since the last one is posted, and not dead', async () => {
  const turned = new TurnedClock(Date.UTC(2031, 5, 1))
  const organization = await house.organization(1_000n)
  const { writer, share, dead } = openTill(house.database, 9, turned)
  await writer.post(house.charge(organization, 1n, { admittedAtMs: turned.now() }), share(organization))
  await house.database.query('drop table charges_20310601')
  await turnUntil(
    turned,
    writer.post(house.charge(organization, 2n, { admittedAtMs: turned.now() }), share(organization)),
  )
  expect(dead).toEqual([])
  expect(await house.spent(organization)).toEqual({ microcents: 2n, charges: 1 })
})
