/** Seeded races of several processes on accounts with limits, and what must be true of every window at the end. */

import { expect } from 'bun:test'
import { readFigures } from '../src/billing/admission/accounts/figures.ts'
import { setLimit } from '../src/billing/admission/accounts/limit.ts'
import { headroomOf } from '../src/billing/admission/gates.ts'
import type { Hold } from '../src/billing/admission/share.ts'
import { foldSlot } from '../src/billing/admission/slots/foldSlot.ts'
import type { SendReclaim } from '../src/billing/admission/wants.ts'
import { HOUR_MS, MINUTE_MS, utcDay } from '../src/lib/time.ts'
import { admitCall } from './admitCall.ts'
import { type Seeded, seeded } from './faults/seeded.ts'
import { FastClock, type House, openTill, type Till, withFaults } from './moneyHouse.ts'
import { settleCall } from './settleCall.ts'
import { turnedDatabase } from './turnedDatabase.ts'

/** A token costs a micro-cent. */
const PRICE = { inputMicrocents: 1_000_000n, outputMicrocents: 0n, cachedInputMicrocents: null }
export const CALL = {
  keyId: '00000000-0000-4000-8000-000000000001',
  model: 'svc/test',
  tier: 'serverless',
  priceHash: new Uint8Array(32),
} as const

/** A clock whose day a test can move, while what runs on it goes on. */
export class HoppingClock extends FastClock {
  aheadMs = 0

  override now(): number {
    return super.now() + this.aheadMs
  }
}

/** As many processes on one database, each hearing the reclaims of all. */
export function openTills(
  house: House,
  slots: readonly number[],
  clock: FastClock,
  faultPercent = 0,
  seed = 1,
): Till[] {
  const random = seeded(seed)
  const database = withFaults(house.database, () =>
    random.percent(faultPercent) ? random.pick(['before', 'after'] as const) : 'none',
  )
  const tills: Till[] = []
  const sendReclaim: SendReclaim = (organizationId, from) => {
    setImmediate(() => {
      for (const till of tills) till[from === 'all' ? 'hearChange' : 'hearReclaim'](organizationId)
    })
  }
  for (const slot of slots) tills.push(openTill(database, slot, clock, sendReclaim))
  return tills
}

export type Answer = 'charged' | 'released' | string

/** One call; its cost is the whole of `cost`, and its hold at least that. */
export async function callOnce(
  till: Till,
  organizationId: string,
  cost: bigint,
  meanwhile: (hold: Hold) => Promise<void> = async () => {},
): Promise<Answer> {
  const admitted = await admitCall(
    till,
    { organizationId, ...CALL },
    {
      wholeMicrocents: cost,
      firstStepMicrocents: cost,
    },
  )
  if (!admitted.ok) return admitted.refusal.code
  await meanwhile(admitted.value.hold)
  await settleCall(till, admitted.value, PRICE, {
    usage: { promptTokens: Number(cost), cachedPromptTokens: 0, completionTokens: 0 },
    estimated: false,
    target: 'mock/test',
    outcome: 'completed',
  })
  return 'charged'
}

/** Returns the sum of the charges by UTC day of admission. */
export async function spentByDay(house: House, organizationId: string): Promise<Map<string, bigint>> {
  const rows = await house.database.query<{ day: string; spent: bigint }>(
    `select to_char(admitted_at at time zone 'UTC', 'YYYY-MM-DD') as day, sum(cost_microcents)::bigint as spent
     from charges where organization_id = $1::uuid group by 1`,
    [organizationId],
  )
  return new Map(rows.map(({ day, spent }) => [day, spent]))
}

/** The most that was charged for calls admitted within any 60 minutes. */
export async function mostInAnHour(house: House, organizationId: string): Promise<bigint> {
  const rows = await house.database.query<{ most: bigint }>(
    `select coalesce(max(spent), 0)::bigint as most from (
       select sum(cost_microcents) over (order by admitted_at range between '60 minutes' preceding and current row) as spent
       from charges where organization_id = $1::uuid) as windows`,
    [organizationId],
  )
  return rows[0]?.most ?? 0n
}

/** The books agree with each other, and the figures of the account with its charges. */
export async function checkFigures(house: House, organizationId: string, nowMs: number): Promise<void> {
  expect(await house.imbalances()).toEqual([])
  const figures = await readFigures(house.database, organizationId, nowMs)
  const byDay = await spentByDay(house, organizationId)
  const today = utcDay(nowMs)
  let ofMonth = 0n
  for (const [day, spent] of byDay) if (day.slice(0, 7) === today.slice(0, 7)) ofMonth += spent
  expect([figures?.daySpentMicrocents, figures?.monthSpentMicrocents]).toEqual([byDay.get(today) ?? 0n, ofMonth])
}

const ROUNDS = 5
const CALLS_A_ROUND = 12

/**
 * Rounds of calls from 2 to 4 processes on an account with a daily and a monthly limit, or on a new one. Between rounds the
 * clock hops to the next day, by part of an hour or not at all, a dead slot is folded, and by the seed the database fails.
 */
export async function raceGates(house: House, seed: number): Promise<{ charged: number; refused: number }> {
  const random = seeded(seed)
  const clock = new HoppingClock(Date.UTC(2030, 0, 30, 10))
  const isNew = seed % 3 === 0
  const organization = await house.organization(4_000_000_000_000n, isNew ? { newSinceMs: clock.now() } : {})
  const unit = isNew ? 40_000_000n : 10n
  const limits = { daily: unit * BigInt(random.between(5, 60)), monthly: unit * BigInt(random.between(60, 120)) }
  if (!isNew) await limit(house, organization, limits, random)
  const slots = Array.from({ length: random.between(2, 4) }, (_, index) => index)
  const tills = openTills(house, slots, clock, seed % 2 === 0 ? 0 : 20, seed)
  const tally = { charged: 0, refused: 0 }
  for (let round = 0; round < ROUNDS; round += 1) {
    const calls = tills.flatMap((till) =>
      Array.from({ length: CALLS_A_ROUND }, async () => {
        const answer = await callOnce(till, organization, unit * BigInt(random.between(1, 4)), () => pause(random))
        if (answer === 'charged') tally.charged += 1
        else tally.refused += 1
        expect(['charged', 'quota_exceeded', 'upstream_unavailable']).toContain(answer)
      }),
    )
    await Promise.all(calls)
    // A renewal may still be under way, to give something back: none takes hours, as one would on which the clock hops.
    await Promise.all(tills.map(({ writer }) => writer.drain()))
    await checkFigures(house, organization, clock.now())
    if (random.percent(30))
      await turnedDatabase(house.database, clock)
        .transaction((tx) => foldSlot(tx, 1, clock.now()))
        .then(() => tills[1]?.forgetShares())
    clock.aheadMs += isNew ? random.between(0, 70) * MINUTE_MS : random.pick([0, HOUR_MS, 14 * HOUR_MS, 24 * HOUR_MS])
  }
  if (isNew) expect(await mostInAnHour(house, organization)).toBeLessThanOrEqual(2_000_000_000n)
  else await checkLimits(house, organization, limits)
  return tally
}

function limit(house: House, organization: string, limits: { daily: bigint; monthly: bigint }, random: Seeded) {
  return setLimit(house.database, organization, {
    dailyMicrocents: limits.daily,
    monthlyMicrocents: limits.monthly,
    enforcement: random.pick(['block_launch', 'stop_running'] as const),
    autoTerminateHours: undefined,
  })
}

async function checkLimits(
  house: House,
  organization: string,
  limits: { daily: bigint; monthly: bigint },
): Promise<void> {
  const months = new Map<string, bigint>()
  for (const [day, spent] of await spentByDay(house, organization)) {
    expect(spent).toBeLessThanOrEqual(limits.daily)
    months.set(day.slice(0, 7), (months.get(day.slice(0, 7)) ?? 0n) + spent)
  }
  for (const spent of months.values()) expect(spent).toBeLessThanOrEqual(limits.monthly)
}

async function pause(random: Seeded): Promise<void> {
  for (let wait = random.between(0, 3); wait > 0; wait -= 1) await new Promise((resolve) => setImmediate(resolve))
}

/** At rest: what the last renewal left of each gate is what the pure rules make of the figures. */
export async function checkHeadroom(house: House, till: Till, organizationId: string): Promise<void> {
  await till.writer.renew(till.share(organizationId), 1n)
  const figures = await readFigures(house.database, organizationId, till.clock.now())
  if (figures === null) throw new Error('no account')
  expect(till.share(organizationId).account.headroom).toEqual(headroomOf(figures))
}
