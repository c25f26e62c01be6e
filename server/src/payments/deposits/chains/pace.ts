/** Bounds the time that one node may take over many questions. */

import { type Clock, MINUTE_MS, SECOND_MS } from '../../../lib/time.ts'
import type { ChainNode } from './rpc.ts'

/** Questions to one node at once. */
export const QUESTIONS_AT_ONCE = 8

/** A node may take so long for all of its answers, and so long more for each. One that is slower would hold up the look of the others. */
const SPARE_MS = 30 * SECOND_MS
const QUESTION_MS = SECOND_MS
/** And no longer than this, however many there are: those that it has answered are not asked again. */
const LONGEST_MS = 5 * MINUTE_MS

/** A node that is asked in time alone. */
export type PacedNode = Pick<ChainNode, 'ask' | 'fail' | 'pause'>

/** Makes a node give up, and be asked after the others, where it takes too long over its questions from now on. */
export function pacedNode(node: ChainNode, clock: Pick<Clock, 'monotonicMs'>): PacedNode {
  const begunMs = clock.monotonicMs()
  let asked = 0
  return {
    fail: node.fail,
    pause: node.pause,
    async ask(method, parameters, shape, bounds) {
      const longestMs = Math.min(SPARE_MS + (asked * QUESTION_MS) / QUESTIONS_AT_ONCE, LONGEST_MS)
      if (clock.monotonicMs() - begunMs > longestMs) {
        node.pause()
        throw node.fail('away', 'takes too long over a range of blocks')
      }
      asked += 1
      return node.ask(method, parameters, shape, bounds)
    },
  }
}
