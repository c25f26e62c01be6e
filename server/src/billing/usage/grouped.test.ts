/** Usage in groups, and its seconds of GPUs, against sums made anew from the charges. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { explaining, type PlanNode } from '../../../test/explaining.ts'
import { type House, openHouse } from '../../../test/moneyHouse.ts'
import { systemRandom } from '../../infra/random.ts'
import { uuidV7 } from '../../lib/ids.ts'
import { divideRoundingDown, MICROCENTS_PER_CENT } from '../../lib/money.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/time.ts'
import type { Charge } from '../charges/charge.ts'
import { ensureChargePartition } from '../charges/partitions/prepare.ts'
import { postCharges } from '../charges/post.ts'
import { chargesOf, postInstanceCharges } from '../charges/settleInstance.ts'
import { type Bucket, bucketStart } from './bucket.ts'
import type { Grouping, UsageCursor, UsageQuestion } from './cursor.ts'
import { readUsagePage, type UsageRow } from './read.ts'

const NOW_MS = Date.UTC(2031, 4, 17, 13, 30, 20, 500)
const clock = new TurnedClock(NOW_MS)
let house: House
let organization: string
const all: Charge[] = []

beforeAll(async () => {
  house = await openHouse(clock)
  organization = await house.organization(10n ** 12n)
  for (let atMs = NOW_MS - 4 * DAY_MS; atMs <= NOW_MS; atMs += DAY_MS) await ensureChargePartition(house.database, atMs)
  const instance = (gpuType: string, gpuCount: number, backMs: number, seconds: number) =>
    all.push(
      ...chargesOf({
        ...{ instanceId: uuidV7(NOW_MS - backMs, systemRandom()), organizationId: organization, gpuType, gpuCount },
        ...{ keyId: '00000000-0000-4000-8000-000000000001', perGpuHourMicrocents: 123_456_789n },
        ...{ createdAtMs: NOW_MS - backMs, fromSecond: 0, toSecond: seconds },
      }),
    )
  instance('a100', 1, 3 * DAY_MS, 7_000)
  instance('a100', 2, 2 * DAY_MS + 300, 10_000)
  instance('h100', 3, 50 * HOUR_MS + 17, 4_000)
  instance('h100', 1, 3 * HOUR_MS, 10_700)
  await house.database.transaction(async (tx) => {
    await postInstanceCharges(tx, organization, all, NOW_MS, 0n)
  })
  const calls = Array.from({ length: 60 }, (_, index) => {
    const admittedAtMs = NOW_MS - index * 67 * MINUTE_MS
    return house.charge(organization, 333_333n, { admittedAtMs, chargeId: uuidV7(admittedAtMs, systemRandom()) })
  })
  await postCharges(house.database, 1, calls, NOW_MS)
  all.push(...calls)
})
afterAll(() => house.drop())

const groupOf = (charge: Charge, by: Grouping | null): string | null => {
  if (by === null || charge.instance === undefined) return null
  return by === 'gpu_type' ? charge.instance.gpuType : charge.instance.instanceId
}

/** Computes the answer to a question from the charges alone. */
function expected({ bucket, startMs, endMs, groupBy }: UsageQuestion) {
  const cents = (microcents: bigint) => divideRoundingDown(microcents, MICROCENTS_PER_CENT)
  const rows = new Map<string, { startMs: number; group: string | null; cents: number; gpuSeconds: number }>()
  const totals = new Map<string | null, bigint>()
  for (const charge of all.toSorted((a, b) => a.admittedAtMs - b.admittedAtMs)) {
    if (charge.admittedAtMs >= endMs) continue
    const group = groupOf(charge, groupBy)
    const before = totals.get(group) ?? 0n
    totals.set(group, before + charge.costMicrocents)
    if (charge.admittedAtMs < startMs) continue
    const at = bucketStart(bucket, charge.admittedAtMs)
    const key = `${at} ${group ?? ''}`
    const row = rows.get(key) ?? { startMs: at, group, cents: 0, gpuSeconds: 0 }
    row.cents += Number(cents(before + charge.costMicrocents) - cents(before))
    row.gpuSeconds += (charge.instance?.seconds ?? 0) * (charge.instance?.gpuCount ?? 0)
    rows.set(key, row)
  }
  return [...rows.values()].toSorted((a, b) => a.startMs - b.startMs || ((a.group ?? '') < (b.group ?? '') ? -1 : 1))
}

async function answered(question: UsageQuestion, limit: number) {
  const rows: UsageRow[] = []
  let next: UsageCursor | null = null
  do {
    const after: { startMs: number; group: string | null } | null =
      next === null ? null : { startMs: next.afterMs, group: next.afterGroup }
    const page = await readUsagePage({ database: house.database, clock }, organization, question, { after, limit })
    expect(page.buckets.length).toBeLessThanOrEqual(limit)
    rows.push(...page.buckets)
    next = page.next
  } while (next !== null)
  const { groupBy } = question
  return rows.map(({ startMs, cents, gpuSeconds, gpuType, instanceId }) => {
    return {
      startMs,
      group: groupBy === 'instance_id' ? instanceId : groupBy === null ? null : gpuType,
      cents,
      gpuSeconds,
    }
  })
}

const windows: [string, number, number][] = [
  ['all of it', NOW_MS - 5 * DAY_MS, NOW_MS + MINUTE_MS],
  ['edges within hours', NOW_MS - 3 * DAY_MS + 1_234_567, NOW_MS - 71 * MINUTE_MS],
  ['within one hour', NOW_MS - 2 * HOUR_MS - 20 * MINUTE_MS, NOW_MS - 2 * HOUR_MS - 3 * MINUTE_MS],
]

describe.each<Bucket>(['hour', 'day', 'week'])('buckets of a %s', (bucket) => {
  describe.each<Grouping | null>([null, 'instance_id', 'gpu_type'])('by %p', (groupBy) => {
    test.each(windows)('%s add up to the charges, on pages of any size', async (_name, startMs, endMs) => {
      const question = { bucket, groupBy, startMs, endMs }
      const rows = expected(question)
      expect(rows.length).toBeGreaterThan(0)
      for (const limit of [1, 3, 200]) expect(await answered(question, limit)).toEqual(rows)
    })
  })
})

test('a page reads the hours of instances that it shows, however many there are', async () => {
  const rented = await house.organization(1n)
  await house.database.query(
    `with added as (
       insert into instance_hours (organization_id, hour, instance_id, gpu_type, requests, gpu_seconds, cost_microcents)
       select $1::uuid, h, i, 'a100', 60, 3600, 1000000 from generate_series('2027-01-01Z'::timestamptz, '2030-12-31Z', '1 hour') h,
         unnest(array[gen_random_uuid(), gen_random_uuid()]) i returning hour
     )
     insert into usage_hours (organization_id, hour, model, tier, key_id, slot, requests, prompt_tokens, cached_prompt_tokens,
       completion_tokens, cost_microcents)
     select $1::uuid, hour, 'instance/a100', 'serverless', $1::uuid, 0, 120, 0, 0, 0, 2000000 from added group by hour`,
    [rented],
  )
  let rowsRead = 0
  const database = explaining(house.database, (plan) => {
    rowsRead += rowsOf(plan, 'instance_hours')
  })
  const question = { bucket: 'hour', startMs: Date.UTC(2027, 0), endMs: NOW_MS, groupBy: null } as const
  const { buckets } = await readUsagePage({ database, clock }, rented, question, { after: null, limit: 50 })
  expect(buckets.map(({ gpuSeconds }) => gpuSeconds)).toEqual(Array(50).fill(7_200))
  expect(rowsRead).toBeLessThan(500)
})

/** Returns how many rows of a table a plan has read. */
function rowsOf(plan: PlanNode, table: string): number {
  const own = plan['Relation Name'] === table ? plan['Actual Rows'] * plan['Actual Loops'] : 0
  return (plan.Plans ?? []).reduce((sum, each) => sum + rowsOf(each, table), own)
}
