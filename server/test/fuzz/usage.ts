import { ensureChargePartition } from '../../src/billing/charges/partitions/prepare.ts'
import { postCharges } from '../../src/billing/charges/post.ts'
import { systemClock } from '../../src/infra/clock.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { systemRandom } from '../../src/infra/random.ts'
import { uuidV7 } from '../../src/lib/ids.ts'
import { DAY_MS, HOUR_MS, toTimestamp } from '../../src/lib/time.ts'
import type { TestKey } from '../customer.ts'

/** No gateway takes a slot so high. */
const SLOT = 900
const HOURS = 40
const COST_MICROCENTS = 1_234_567n

export interface UsageSeeds {
  /** Of pages that are there. */
  readonly cursors: readonly string[]
  /** From, to. */
  readonly windows: readonly (readonly [string, string])[]
}

/** Posts a charge for each of some hours past, and asks `GET /usage` for the cursors of its pages. */
export async function fillUsage(database: Database, url: string, customer: TestKey): Promise<UsageSeeds> {
  const nowMs = systemClock.now()
  const hours = Array.from({ length: HOURS }, (_, index) => nowMs - (index + 1) * HOUR_MS)
  for (const atMs of hours) await ensureChargePartition(database, atMs)
  const charges = hours.map((admittedAtMs) => ({
    chargeId: uuidV7(admittedAtMs, systemRandom()),
    admittedAtMs,
    organizationId: customer.organizationId,
    keyId: customer.id,
    model: 'svc/chat',
    tier: 'serverless' as const,
    priceHash: new Uint8Array(32),
    usage: { promptTokens: 1, cachedPromptTokens: 0, completionTokens: 1 },
    estimated: false,
    costMicrocents: COST_MICROCENTS,
    target: 'sandbox/sandbox',
    outcome: 'completed' as const,
  }))
  await postCharges(database, SLOT, charges, nowMs)
  const window = (fromMs: number, toMs: number) => [toTimestamp(nowMs - fromMs), toTimestamp(nowMs - toMs)] as const
  return {
    cursors: [...(await cursorsOf(url, customer, 'hour')), ...(await cursorsOf(url, customer, 'day'))],
    windows: [window(2 * DAY_MS, 0), window(30 * HOUR_MS, 3 * HOUR_MS), window(400 * DAY_MS, -DAY_MS)],
  }
}

async function cursorsOf(url: string, { key }: TestKey, bucket: string): Promise<string[]> {
  const cursors: string[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query = cursor === '' ? `bucket=${bucket}` : `cursor=${cursor}`
    const answer = await fetch(`${url}/usage?limit=1&${query}`, { headers: { Authorization: `Bearer ${key}` } })
    const page = (await answer.json()) as { readonly next_cursor: string | null }
    if (!answer.ok) throw new Error(JSON.stringify(page))
    cursor = page.next_cursor
    if (cursor !== null) cursors.push(cursor)
  }
  if (cursors.length === 0) throw new Error(`usage by ${bucket} has only one page`)
  return cursors
}
