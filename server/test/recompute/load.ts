/** Makes the calls of a run, so many at once, and writes down what became of each. */

import type { TestKey } from '../customer.ts'
import { makeCall, type Received } from './client.ts'
import { makeVideoCall, type ReceivedVideo } from './clientVideo.ts'
import { makeWholeCall, type ReceivedWhole } from './clientWhole.ts'
import { PAYERS, type Payer, planCall } from './plan.ts'
import { planVideo } from './planVideo.ts'
import { type Kind, kindOf, planWhole } from './planWhole.ts'

export interface LoadOptions {
  /** Ends in /v1. */
  readonly url: string
  readonly seed: number
  readonly calls: number
  /** Calls that are open at once. */
  readonly atOnce: number
  readonly keys: Readonly<Record<Payer, readonly TestKey[]>>
  /** Of each payer, for calls whose client may not learn its charge's id: one call at a time on each. */
  readonly aloneKeys: Readonly<Record<Payer, readonly TestKey[]>>
  /** Written with a line of JSON for each call. */
  readonly path: string
  readonly onProgress?: (done: number) => void
}

export interface LoadResult {
  readonly seconds: number
  /** How many calls ended in each way. */
  readonly ends: Readonly<Record<Received['end'], number>>
  readonly early: number
  /** Calls of each kind. */
  readonly kinds: Readonly<Record<Kind, number>>
  /** Refusals and errors by their code. */
  readonly codes: Readonly<Record<string, number>>
}

/**
 * A key whose client has left rests this long before its next call: a charge's instant of admission then tells which of
 * them it is for, whatever the gateway's queue.
 */
const LEFT_REST_MS = 2_000
/**
 * After an answer nothing more is admitted. Two calls must only be further apart than the gateway's clock may be from this one, either
 * way: CLOCK_SLACK_MS of `recompute.py`.
 */
const ANSWERED_REST_MS = 250
const POLL_MS = 3
const PROGRESS_EVERY = 50_000
/** Jobs take their time: they are waited for beside the calls. */
const VIDEOS_AT_ONCE = 64

export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  const { calls, atOnce, onProgress } = options
  const writer = Bun.file(options.path).writer({ highWaterMark: 1 << 20 })
  const alone = new AloneKeys(options.aloneKeys)
  const ends = { whole: 0, error: 0, left: 0, broken: 0 }
  const kinds = { chat: 0, embedding: 0, image: 0, video: 0 }
  const codes: Record<string, number> = {}
  let early = 0
  let next = 0
  let done = 0
  const note = async (received: Received | ReceivedWhole | ReceivedVideo) => {
    writer.write(`${JSON.stringify(received)}\n`)
    kinds[received.kind] += 1
    if (received.isEarly && received.kind === 'chat') early += 1
    ends[received.end] += 1
    if (received.code !== null) codes[received.code] = (codes[received.code] ?? 0) + 1
    done += 1
    if (done % PROGRESS_EVERY === 0) {
      await writer.flush()
      onProgress?.(done)
    }
  }
  const videos = new Set<Promise<void>>()
  const beginVideo = async (number: number) => {
    while (videos.size >= VIDEOS_AT_ONCE) await Promise.race(videos)
    const video = makeVideo(options, alone, number)
      .then(note)
      .finally(() => videos.delete(video))
    videos.add(video)
  }
  const client = async () => {
    while (next < calls) {
      next += 1
      const number = next
      const kind = kindOf(options.seed, number)
      if (kind === 'video') await beginVideo(number)
      else await note(await makeNumber(options, alone, number, kind))
    }
  }
  const startedMs = performance.now()
  await Promise.all(Array.from({ length: atOnce }, client))
  await Promise.all(videos)
  await writer.end()
  return { seconds: (performance.now() - startedMs) / 1_000, ends, early, kinds, codes }
}

async function makeVideo({ url, seed, keys }: LoadOptions, alone: AloneKeys, number: number): Promise<ReceivedVideo> {
  const plan = planVideo(seed, number)
  const own = plan.leavesAfterMs === null ? undefined : alone.take(plan.payer)
  const received = await makeVideoCall(url, own ?? ordinaryKey(keys, plan.payer, number), plan, own !== undefined)
  if (own !== undefined) alone.rest(plan.payer, own, true)
  return received
}

function ordinaryKey(keys: LoadOptions['keys'], payer: Payer, number: number): TestKey {
  const ordinary = keys[payer]
  const key = ordinary[number % ordinary.length]
  if (key === undefined) throw new Error(`${payer} has no key`)
  return key
}

async function makeNumber(
  { url, seed, keys }: LoadOptions,
  alone: AloneKeys,
  number: number,
  kind: Exclude<Kind, 'video'>,
): Promise<Received | ReceivedWhole> {
  if (kind !== 'chat') {
    const plan = planWhole(seed, number, kind)
    const key = await alone.wait(plan.payer)
    const received = await makeWholeCall(url, key, plan)
    alone.rest(plan.payer, key, received.end === 'left' || received.end === 'broken')
    return received
  }
  const plan = planCall(seed, number)
  // Where none has rested, the client does not leave.
  const own = plan.hangUp?.kind === 'early' ? alone.take(plan.payer) : undefined
  const received = await makeCall(url, own ?? ordinaryKey(keys, plan.payer, number), plan, own !== undefined)
  if (own !== undefined) alone.rest(plan.payer, own, true)
  return received
}

/** Keys with a call at a time, those that have rested longest first. */
class AloneKeys {
  private readonly resting: Record<Payer, { key: TestKey; untilMs: number }[]>

  constructor(keys: Readonly<Record<Payer, readonly TestKey[]>>) {
    const all = PAYERS.map((payer) => [payer, keys[payer].map((key) => ({ key, untilMs: 0 }))])
    this.resting = Object.fromEntries(all)
  }

  /** Undefined: none has rested long enough. */
  take(payer: Payer): TestKey | undefined {
    const index = this.resting[payer].findIndex(({ untilMs }) => untilMs <= performance.now())
    return index < 0 ? undefined : this.resting[payer].splice(index, 1)[0]?.key
  }

  async wait(payer: Payer): Promise<TestKey> {
    for (;;) {
      const key = this.take(payer)
      if (key !== undefined) return key
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
  }

  rest(payer: Payer, key: TestKey, hasLeft: boolean): void {
    this.resting[payer].push({ key, untilMs: performance.now() + (hasLeft ? LEFT_REST_MS : ANSWERED_REST_MS) })
  }
}
