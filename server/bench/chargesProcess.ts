/** One process of `charges.ts`: makes charges as calls do, or as a rival would, for as long as it is told. */

import { systemClock } from '../src/infra/clock.ts'
import { openClient } from '../src/infra/postgres/client.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { systemRandom } from '../src/infra/random.ts'
import { uuidV7 } from '../src/lib/ids.ts'
import { toTimestamp } from '../src/lib/time.ts'
import { admitCall } from '../test/admitCall.ts'
import { openTill, type Till } from '../test/moneyHouse.ts'
import { settleCall } from '../test/settleCall.ts'
import { BUCKETS_PER_MS, type Order, type ProcessPlan, type Report } from './chargesPlan.ts'

/** The last bucket: a longer time counts as this long. */
const HISTOGRAM_LONGEST_MS = 2_000

/** Micro-cents for a million tokens: those of a common model. */
const RATE = { inputMicrocents: 15_000_000n, outputMicrocents: 60_000_000n, cachedInputMicrocents: 7_500_000n }
const WORST = { wholeMicrocents: 100_000n, firstStepMicrocents: 20_000n }
const PRICE_HASH = new Uint8Array(32)
const MODEL = 'svc/bench'

const SINGLE = `
  with charged as (
    insert into bench_single_charges (admitted_at, id, organization_id, key_id, served_model, prompt_tokens,
      cached_prompt_tokens, completion_tokens, estimated, cost_microcents, outcome, posted_at)
    values ($1::timestamptz, $2::uuid, $3::uuid, $4::uuid, 1,
      900, 0, 100, false, $5::bigint, 'completed', $1::timestamptz)
  )
  update bench_single_accounts set balance_microcents = balance_microcents - $5::bigint
  where organization_id = $3::uuid`

class Durations {
  readonly buckets = new Array<number>(HISTOGRAM_LONGEST_MS * BUCKETS_PER_MS + 1).fill(0)
  charges = 0

  add(milliseconds: number): void {
    const bucket = Math.min(this.buckets.length - 1, Math.ceil(milliseconds * BUCKETS_PER_MS))
    this.buckets[bucket] = (this.buckets[bucket] ?? 0) + 1
    this.charges += 1
  }
}

/** Runs `one` over and over, `atOnce` at a time; what ends after the time does not count. */
async function loop(atOnce: number, seconds: number, one: (number: number) => Promise<void>): Promise<Report> {
  const durations = new Durations()
  const untilMs = performance.now() + seconds * 1_000
  const client = async (number: number) => {
    for (;;) {
      const startedMs = performance.now()
      if (startedMs >= untilMs) return
      await one(number)
      const endedMs = performance.now()
      if (endedMs < untilMs) durations.add(endedMs - startedMs)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, (_, number) => client(number)))
  return { charges: durations.charges, histogram: durations.buckets }
}

async function chargeAsCallsDo(till: Till, plan: ProcessPlan, number: number): Promise<void> {
  const keyId = plan.keyIds[number % plan.keyIds.length] ?? ''
  const call = {
    organizationId: plan.organizationId,
    keyId,
    model: MODEL,
    tier: 'serverless',
    priceHash: PRICE_HASH,
  } as const
  const passed = admitCall(till, call, WORST)
  const admitted = passed instanceof Promise ? await passed : passed
  if (!admitted.ok) throw new Error(admitted.refusal.message)
  await settleCall(till, admitted.value, RATE, {
    usage: { promptTokens: 900, cachedPromptTokens: 0, completionTokens: 100 },
    estimated: false,
    target: 'mock/bench',
    outcome: 'completed',
  })
}

async function chargeSingly(database: Database, plan: ProcessPlan, number: number): Promise<void> {
  const nowMs = systemClock.now()
  const keyId = plan.keyIds[number % plan.keyIds.length] ?? ''
  const id = uuidV7(nowMs, random)
  await database.query(SINGLE, [toTimestamp(nowMs), id, plan.organizationId, keyId, 19_500n])
}

const random = systemRandom()
const plan = JSON.parse(process.argv[2] ?? '') as ProcessPlan
const open = (maxConnections: number) =>
  openClient(plan.url, { maxConnections, clock: systemClock, applicationName: 'tollgate bench' })
// As many as a gateway process has.
const till = openTill(open(12), plan.slot, systemClock)
const single = open(plan.connections)

process.on('message', async ({ way, seconds }: Order) => {
  const report =
    way === 'batched'
      ? await loop(plan.openCalls, seconds, (number) => chargeAsCallsDo(till, plan, number))
      : await loop(plan.connections, seconds, (number) => chargeSingly(single, plan, number))
  await till.writer.drain()
  process.send?.(report)
})
process.send?.('ready')
