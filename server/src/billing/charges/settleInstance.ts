import { createHash } from 'node:crypto'
import { priceHash } from '../../catalog/price.ts'
import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import { uuidV7 } from '../../lib/ids.ts'
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../lib/time.ts'
import { INSTANCES_SLOT } from '../admission/gates.ts'
import { type OnDayMended, renewShares } from '../admission/renewal/renew.ts'
import type { Charge } from './charge.ts'
import { ensureChargePartition } from './partitions/prepare.ts'
import { postCharges } from './post.ts'
import { priceInstancePart } from './pricing.ts'
import { NO_TOKENS } from './settle.ts'

/** Nothing is wanted, and nothing kept: the renewal's statement folds what was spent, and sees whom to tell. */
const FOLD = { admission: 0n, least: 0n, extension: 0n, giveBack: 0n }

/** A part of an instance's life that is to be charged. */
export interface InstanceSpan {
  readonly instanceId: string
  readonly organizationId: string
  /** Of the key or the member that created it. */
  readonly keyId: string
  readonly gpuType: string
  readonly gpuCount: number
  readonly perGpuHourMicrocents: bigint
  readonly createdAtMs: number
  /** Seconds of its life: the first that is charged, and the first that is not. */
  readonly fromSecond: number
  readonly toSecond: number
}

/**
 * Returns the charges of a part of an instance's life: one for each minute of the clock in which one of
 * its seconds ends. The instant of a charge
 * is that of its minute, and its id is made of the minute and of what is charged, so that it is the same whoever makes it (D1).
 */
export function chargesOf(span: InstanceSpan): Charge[] {
  const { instanceId, organizationId, keyId, gpuType, gpuCount, perGpuHourMicrocents, createdAtMs, toSecond } = span
  const price = { kind: 'instance_hour', perGpuHourMicrocents } as const
  const hash = priceHash(price)
  const charges: Charge[] = []
  for (let fromSecond = span.fromSecond; fromSecond < toSecond; ) {
    const minuteMs = minuteOf(createdAtMs + (fromSecond + 1) * SECOND_MS - 1)
    const endSecond = Math.min(Math.floor((minuteMs + MINUTE_MS - createdAtMs) / SECOND_MS), toSecond)
    const part = { instanceId, gpuType, gpuCount, fromSecond, seconds: endSecond - fromSecond }
    const digest = createHash('sha256').update(`instance:${instanceId}:${fromSecond}`).digest()
    charges.push({
      chargeId: uuidV7(minuteMs, (length) => new Uint8Array(digest.subarray(0, length))),
      admittedAtMs: minuteMs,
      organizationId,
      keyId,
      model: `instance/${gpuType}`,
      tier: 'serverless',
      priceHash: hash,
      usage: NO_TOKENS,
      estimated: false,
      costMicrocents: priceInstancePart(price, part),
      target: `instance/${instanceId}`,
      outcome: 'completed',
      modality: 'instance',
      instance: part,
    })
    fromSecond = endSecond
  }
  return charges
}

function minuteOf(atMs: number): number {
  return Math.floor(atMs / MINUTE_MS) * MINUTE_MS
}

/** Makes sure that charges between two instants have a place. Before their transaction: it locks more than that should. */
export async function prepareInstanceCharges(database: Queryable, fromMs: number, toMs: number): Promise<void> {
  for (let atMs = fromMs; ; atMs += DAY_MS) {
    await ensureChargePartition(database, Math.min(atMs, toMs))
    if (atMs >= toMs) return
  }
}

/**
 * Posts the charges of one instance and folds them into its account, which is locked. True: there is somebody to be told
 * something.
 */
export async function postInstanceCharges(
  tx: Transaction,
  organizationId: string,
  charges: readonly Charge[],
  nowMs: number,
  lowBalanceMicrocents: bigint,
  onDayMended?: OnDayMended,
): Promise<boolean> {
  if (charges.length > 0) await postCharges(tx, INSTANCES_SLOT, charges, nowMs)
  const wants = new Map([[organizationId, FOLD]])
  const folded = await renewShares(tx, INSTANCES_SLOT, wants, nowMs, lowBalanceMicrocents, null, onDayMended)
  return folded.some(({ noticed }) => noticed)
}
