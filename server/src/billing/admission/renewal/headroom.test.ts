/**
 * The headroom of an account is computed in three places: by `headroomOf` of the figures that are read, by the statement of a
 * renewal, and by the statement that holds money for an instance. On random accounts the three agree.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Seeded, seeded } from '../../../../test/faults/seeded.ts'
import { FastClock, type House, openHouse } from '../../../../test/moneyHouse.ts'
import type { Transaction } from '../../../infra/postgres/database.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, toTimestamp } from '../../../lib/time.ts'
import { readFigures } from '../accounts/figures.ts'
import { windowsAt } from '../accounts/windows.ts'
import { GATES, gatesOfLiving, type Headroom, headroomOf, leastHeadroom } from '../gates.ts'
import { extendInstanceHold, placeInstanceHold } from '../holds/instanceHold.ts'
import type { Renewed, Want } from '../wants.ts'
import { renewShares } from './renew.ts'

const SEEDS = 6
const ACCOUNTS = 40
const [SLOT, OTHER_SLOT] = [1, 2]
/** An hour into a day, so that spend of the last 60 minutes and of the day before are near; then of a month too. */
const INSTANTS_MS = [Date.UTC(2030, 0, 20, 1, 0, 30), Date.UTC(2030, 1, 1, 1, 0, 30)] as const
/** Gives nothing back and wants nothing: folds alone. */
const NOTHING: Want = { admission: 0n, least: 0n, extension: 0n, giveBack: 0n }

let nowMs: number = INSTANTS_MS[0]
let house: House
beforeAll(async () => {
  house = await openHouse(new FastClock(nowMs), { now: () => nowMs })
})
afterAll(() => house.drop())

const ROLLED_BACK = new Error('rolled back')

const minuteAgo = (ms: number) => toTimestamp(Math.floor((nowMs - ms) / MINUTE_MS) * MINUTE_MS)

/** An account of random figures: some of it spent and not folded yet, by the slot at any time, and by another one just now. */
async function makeAccount(random: Seeded): Promise<string> {
  const organizationId = await house.organization(0n, random.percent(50) ? { newSinceMs: nowMs - DAY_MS } : {})
  const amount = (most = 10_000) => BigInt(random.between(0, most)) * random.pick([1n, 1n, 100_000n])
  const limit = () => (random.percent(60) ? amount() + 1n : null)
  const [granted, grantedElsewhere] = [amount(), amount()]
  const { day, month } = windowsAt(random.pick([nowMs, nowMs, nowMs - 2 * HOUR_MS, nowMs - 40 * DAY_MS]))
  const inHour = amount()
  await house.database.query(
    `update accounts set balance_microcents = $2::bigint, shares_microcents = $3::bigint, held_microcents = $4::bigint,
       day = $5::date, day_spent_microcents = $6::bigint, month = $7::date, month_spent_microcents = $8::bigint,
       hour_spent_microcents = $9::bigint, daily_limit_microcents = $10::bigint, monthly_limit_microcents = $11::bigint,
       enforcement = $12, instances_held_microcents = $13::bigint, burn_microcents = $14::bigint where organization_id = $1::uuid`,
    [
      organizationId,
      amount(30_000) - 3_000n,
      granted + grantedElsewhere,
      amount(500),
      day,
      amount(),
      month,
      amount(),
      inHour,
      limit(),
      limit(),
      random.pick(['stop_running', 'block_launch', 'notify_only']),
      amount(300),
      amount(300),
    ],
  )
  const minute = random.pick([5, 30, 59, 61, 200]) * MINUTE_MS
  await house.database.query('insert into account_minutes values ($1::uuid, $2::timestamptz, $3::bigint)', [
    organizationId,
    minuteAgo(minute),
    inHour,
  ])
  const share = (slot: number, microcents: bigint) =>
    house.database.query('insert into account_shares values ($1::uuid, $2::integer, $3::bigint)', [
      organizationId,
      slot,
      microcents,
    ])
  const charged = (slot: number, ms: number, microcents: bigint) =>
    house.database.query(
      `insert into usage_days as d values ($1::uuid, date_bin('1 day', $3::timestamptz, 'epoch'), $2::integer, 1, $4::bigint)
       on conflict (organization_id, day, slot) do update set cost_microcents = d.cost_microcents + excluded.cost_microcents`,
      [organizationId, slot, minuteAgo(ms), microcents],
    )
  const spend = async (slot: number, ms: number, microcents: bigint) => {
    await house.database.query(
      'insert into unfolded_spend values ($1::uuid, $2::integer, $3::timestamptz, $4::bigint)',
      [organizationId, slot, minuteAgo(ms), microcents],
    )
    await charged(slot, ms, microcents)
  }
  // Of a day and month that the account comes to, some may be charged and folded already.
  if (random.percent(30)) await charged(OTHER_SLOT, random.pick([0, 10 * DAY_MS]), amount())
  await share(SLOT, granted)
  await share(OTHER_SLOT, grantedElsewhere)
  // A slot may have spent more than it was granted, and on days that are over.
  for (const ago of [0, 59 * MINUTE_MS, 70 * MINUTE_MS, 3 * DAY_MS])
    if (random.percent(50)) await spend(SLOT, ago, amount(4_000))
  // Until another slot is folded its spend is counted by what it was granted: the same, where it was spent now and not beyond.
  await spend(OTHER_SLOT, 0, grantedElsewhere / BigInt(random.between(1, 4)))
  return organizationId
}

async function headroomRead(organizationId: string): Promise<Headroom> {
  const figures = await readFigures(house.database, organizationId, nowMs)
  if (figures === null) throw new Error('no account')
  return headroomOf(figures)
}

const renewAll = async (wants: ReadonlyMap<string, Want>): Promise<Map<string, Renewed>> => {
  const renewed = await renewShares(house.database, SLOT, wants, nowMs)
  return new Map(renewed.map((each) => [each.organizationId, each]))
}

test('the figures that are read, the pure rules and the statement of a renewal leave the same of each gate', async () => {
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const random = seeded(seed)
    nowMs = random.pick(INSTANTS_MS)
    const ids: string[] = []
    for (let made = 0; made < ACCOUNTS; made += 1) ids.push(await makeAccount(random))
    const before = new Map<string, Headroom>()
    for (const id of ids) before.set(id, await headroomRead(id))
    const folded = await renewAll(new Map(ids.map((id) => [id, NOTHING])))
    for (const id of ids) {
      const { headroom } = known(folded, id)
      expect({ seed, id, headroom }).toEqual({ seed, id, headroom: known(before, id) })
      expect({ seed, id, headroom: await headroomRead(id) }).toEqual({ seed, id, headroom })
    }
    const wants = new Map(ids.map((id) => [id, wantOf(random)]))
    const granted = await renewAll(wants)
    for (const id of ids) {
      const [kept, now] = [known(folded, id), known(granted, id)]
      const fresh = now.grantedMicrocents - kept.grantedMicrocents
      expect({ seed, id, headroom: now.headroom }).toEqual({ seed, id, headroom: lessOf(kept.headroom, fresh) })
      expect({ seed, id, headroom: await headroomRead(id) }).toEqual({ seed, id, headroom: now.headroom })
      // New calls are granted nothing that a gate does not leave.
      const passed = GATES.filter((gate) => (now.headroom[gate] ?? 0n) < 0n)
      if (fresh > 0n) expect({ seed, id, passed }).toEqual({ seed, id, passed: [] })
      // Less than helps anyone is left to others.
      const isOfUse = fresh === 0n || now.grantedToOthersMicrocents === 0n || fresh >= known(wants, id).least
      expect({ seed, id, isOfUse }).toEqual({ seed, id, isOfUse: true })
    }
  }
  console.log(`seeds: ${SEEDS} of ${ACCOUNTS} accounts each`)
}, 60_000)

test('an instance is held for to the micro-cent that the gates leave, when it is made and while it lives', async () => {
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const random = seeded(seed)
    nowMs = random.pick(INSTANTS_MS)
    const ids: string[] = []
    for (let made = 0; made < ACCOUNTS; made += 1) ids.push(await makeAccount(random))
    await renewAll(new Map(ids.map((id) => [id, NOTHING])))
    for (const organizationId of ids) {
      const figures = await readFigures(house.database, organizationId, nowMs)
      if (figures === null) throw new Error('no account')
      const headroom = headroomOf(figures)
      const hold = { id: Bun.randomUUIDv7(), organizationId, microcents: 0n }
      // Of a new account the cap leaves room for a price of an hour, not for what is held.
      const priceOfHour = atLeastZero(headroom.newAccount ?? 100n)
      const tries = {
        create: (more: bigint, hour: bigint) =>
          asked((tx) => placeInstanceHold(tx, { ...hold, microcents: more }, hour, nowMs)),
        extend: (more: bigint) => asked((tx) => extendInstanceHold(tx, hold, more, nowMs)),
      }
      const left = leastHeadroom(headroom, ['balance', 'daily', 'monthly']) ?? 0n
      const leftLiving = leastHeadroom(headroom, gatesOfLiving(figures)) ?? 0n
      const fits = left >= 0n && (headroom.newAccount ?? 0n) >= 0n
      expect({
        seed,
        organizationId,
        all: await tries.create(atLeastZero(left), priceOfHour),
        above: await tries.create(atLeastZero(left + 1n), priceOfHour),
        dearer: await tries.create(atLeastZero(left), priceOfHour + 1n),
        more: await tries.extend(atLeastZero(leftLiving)),
        tooMuch: await tries.extend(atLeastZero(leftLiving + 1n)),
      }).toEqual({
        seed,
        organizationId,
        all: fits,
        above: false,
        dearer: fits && headroom.newAccount === null,
        more: leftLiving >= 0n,
        tooMuch: false,
      })
    }
  }
}, 60_000)

const atLeastZero = (microcents: bigint) => (microcents < 0n ? 0n : microcents)

/** Whether a hold would be placed; it is rolled back. */
async function asked(place: (tx: Transaction) => Promise<boolean>): Promise<boolean> {
  let isPlaced = false
  await house.database
    .transaction(async (tx) => {
      isPlaced = await place(tx)
      throw ROLLED_BACK
    })
    .catch((error: unknown) => {
      if (error !== ROLLED_BACK) throw error
    })
  return isPlaced
}

function known<T>(found: ReadonlyMap<string, T>, id: string): T {
  const one = found.get(id)
  if (one === undefined) throw new Error(`nothing of ${id}`)
  return one
}

/** The needs of new calls, sometimes with a reclaim at the same time that takes nothing. */
function wantOf(random: Seeded): Want {
  const admission = BigInt(random.between(1, 5_000)) * random.pick([1n, 1_000n, 100_000n])
  return { admission, least: admission, extension: 0n, giveBack: random.percent(50) ? null : 0n }
}

function lessOf({ balance, daily, monthly, newAccount }: Headroom, microcents: bigint): Headroom {
  const less = (left: bigint | null) => (left === null ? null : left - microcents)
  return { balance: balance - microcents, daily: less(daily), monthly: less(monthly), newAccount: less(newAccount) }
}
