/** Clients that make one call after the other until they are told to end, and say what became of each. */

import { makeCall, type Received } from './caller.ts'
import { FIRST_NUMBER } from './countingProvider.ts'
import type { PlannedCall } from './killPlan.ts'
import type { Seeded } from './seeded.ts'

export interface SteadyLoad {
  readonly received: readonly Received[]
  /** Resolves when `count` more of the answers that come from now on are as `is` says. */
  more(count: number, is: (received: Received) => boolean): Promise<void>
  /** Makes a further call every so often, beside clients that all wait, until `count` of the answers are as `is` says. */
  probe(count: number, is: (received: Received) => boolean): Promise<void>
  /** Starts no more calls; resolves when the last open one has ended. */
  end(): Promise<void>
}

/** Of calls that are made beside waiting ones; bounds how many of those there will be. */
const PROBE_INTERVAL_MS = 20

export const isWhole = ({ whole }: Received) => whole
export const isUnavailable = ({ status, code }: Received) => status === 503 && code === 'upstream_unavailable'

/** So many clients at once, with calls that all would be answered whole. */
export function startSteadyLoad(url: string, key: string, clients: number, random: Seeded): SteadyLoad {
  const received: Received[] = []
  const waiting = new Set<(received: Received) => void>()
  let numbers = FIRST_NUMBER - 1
  let ended = false
  const one = async () => {
    numbers += 1
    const call: PlannedCall = {
      number: numbers,
      model: random.percent(50) ? 'sandbox' : 'answers',
      stream: random.percent(50),
      tokens: random.between(1, 40),
      hangsUpAfter: null,
    }
    const got = await makeCall(url, key, call)
    received.push(got)
    for (const tell of [...waiting]) tell(got)
  }
  const client = async () => {
    while (!ended) {
      await one()
      // A refusal comes at once: without a turn for others the refused would be all there is.
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  const underWay = Array.from({ length: clients }, client)
  const more = (count: number, is: (received: Received) => boolean) =>
    new Promise<void>((resolve) => {
      let left = count
      const tell = (got: Received) => {
        if (is(got)) left -= 1
        if (left > 0) return
        waiting.delete(tell)
        resolve()
      }
      waiting.add(tell)
    })
  return {
    received,
    more,
    async probe(count, is) {
      let isEnough = false
      const enough = more(count, is).then(() => {
        isEnough = true
      })
      while (!isEnough) {
        underWay.push(one())
        await new Promise((resolve) => setTimeout(resolve, PROBE_INTERVAL_MS))
      }
      await enough
    },
    async end() {
      ended = true
      await Promise.all(underWay)
    },
  }
}
