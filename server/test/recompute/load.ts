/** Makes the calls of a run, so many at once, and writes down what became of each. */

import type { TestKey } from '../customer.ts'
import { makeCall, type Received } from './client.ts'
import { PAYERS, type Payer, planCall } from './plan.ts'

export interface LoadOptions {
  /** Ends in /v1. */
  readonly url: string
  readonly seed: number
  readonly calls: number
  /** Calls that are open at once. */
  readonly atOnce: number
  readonly keys: Readonly<Record<Payer, readonly TestKey[]>>
  /** Of each payer, for calls that leave early: one call at a time on each. */
  readonly earlyKeys: Readonly<Record<Payer, readonly TestKey[]>>
  /** Written with a line of JSON for each call. */
  readonly path: string
  readonly onProgress?: (done: number) => void
}

export interface LoadResult {
  readonly seconds: number
  /** How many calls ended in each way. */
  readonly ends: Readonly<Record<Received['end'], number>>
  readonly early: number
  /** Refusals and errors by their code. */
  readonly codes: Readonly<Record<string, number>>
}

/**
 * A key for early hang-ups rests this long between two calls: a charge's instant of admission then tells which of them
 * it is for, whatever the gateway's queue.
 */
const EARLY_REST_MS = 2_000
const PROGRESS_EVERY = 50_000

export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  const { url, seed, calls, atOnce, keys, onProgress } = options
  const writer = Bun.file(options.path).writer({ highWaterMark: 1 << 20 })
  const resting = new EarlyKeys(options.earlyKeys)
  const ends = { whole: 0, error: 0, left: 0, broken: 0 }
  const codes: Record<string, number> = {}
  let early = 0
  let next = 0
  let done = 0
  const client = async () => {
    while (next < calls) {
      next += 1
      const plan = planCall(seed, next)
      const isEarly = plan.hangUp?.kind === 'early'
      const earlyKey = isEarly ? resting.take(plan.payer) : undefined
      const ordinary = keys[plan.payer]
      const key = earlyKey ?? ordinary[plan.number % ordinary.length]
      if (key === undefined) throw new Error(`${plan.payer} has no key`)
      const received = await makeCall(url, key, plan, earlyKey !== undefined)
      if (earlyKey !== undefined) resting.rest(plan.payer, earlyKey)
      writer.write(`${JSON.stringify(received)}\n`)
      if (received.isEarly) early += 1
      ends[received.end] += 1
      if (received.code !== null) codes[received.code] = (codes[received.code] ?? 0) + 1
      done += 1
      if (done % PROGRESS_EVERY === 0) {
        await writer.flush()
        onProgress?.(done)
      }
    }
  }
  const startedMs = performance.now()
  await Promise.all(Array.from({ length: atOnce }, client))
  await writer.end()
  return { seconds: (performance.now() - startedMs) / 1_000, ends, early, codes }
}

/** Keys that have rested, longest first. */
class EarlyKeys {
  private readonly rested: Record<Payer, { key: TestKey; fromMs: number }[]>

  constructor(keys: Readonly<Record<Payer, readonly TestKey[]>>) {
    const all = PAYERS.map((payer) => [payer, keys[payer].map((key) => ({ key, fromMs: 0 }))])
    this.rested = Object.fromEntries(all)
  }

  /** Undefined: none has rested long enough. */
  take(payer: Payer): TestKey | undefined {
    const [first] = this.rested[payer]
    if (first === undefined || first.fromMs > performance.now()) return undefined
    return this.rested[payer].shift()?.key
  }

  rest(payer: Payer, key: TestKey): void {
    this.rested[payer].push({ key, fromMs: performance.now() + EARLY_REST_MS })
  }
}
