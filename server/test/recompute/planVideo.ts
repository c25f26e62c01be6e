/** The plan of each call for a video: by seed and number alone, like those of chat in `plan.ts`. */

import { type Seeded, seeded } from '../faults/seeded.ts'
import { BAD_CLIPS, type ClipName, GOOD_CLIPS } from './clips.ts'
import type { Payer } from './plan.ts'

/**
 * - `busy`: it would not take the job at first
 * - `rejected`: it does not take the job at all
 * - `lost`: the job arrives, and the connection ends without an answer
 * - `failed`, `forbidden`: the job fails, the second for its content
 * - `forgotten`: the job is not known any more
 */
type Trouble = 'busy' | 'rejected' | 'lost' | 'failed' | 'forbidden' | 'forgotten'

export interface VideoPlan {
  readonly number: number
  readonly payer: Payer
  readonly model: number
  /** Null: left to what is preset. */
  readonly seconds: number | null
  /** The file that is sent for a clip, however long one was asked for. */
  readonly clip: ClipName
  /** So many seconds it is said to have, which is not what it has. */
  readonly toldSeconds: number
  /** How often the job is not done yet when it is looked at. */
  readonly looks: number
  readonly trouble: Trouble | null
  /** The file breaks off so often, three times in a row for good. */
  readonly breaks: number
  /** The file begins to come after so long. */
  readonly fileAfterMs: number
  /** The client wants it no more after so long; null: it waits for the end. */
  readonly cancelAfterMs: number | null
  /** The client leaves so long after its request, perhaps without an answer; null: it stays. */
  readonly leavesAfterMs: number | null
  /** Sent again with its Idempotency-Key. */
  readonly isSentTwice: boolean
}

/** Jobs are slow beside calls: one in so many numbers is a video. */
export const ONE_VIDEO_IN = 200
export const VIDEO_MODELS = 4
export const secondsMostOf = (model: number) => 4 + 2 * model
export const secondsPresetOf = (model: number) => 2 + model

export function planVideo(seed: number, number: number): VideoPlan {
  const random = seeded(Math.imul(seed, 32_452_843) + number)
  const model = random.between(0, VIDEO_MODELS - 1)
  const chance = random.between(1, 100)
  const trouble = chance <= 22 ? troubleOf(random) : null
  const isCancelled = random.percent(20)
  return {
    number,
    payer: random.percent(4) ? 'poor' : random.pick(['first', 'second', 'third']),
    model,
    seconds: random.percent(75) ? random.between(1, secondsMostOf(model)) : null,
    clip: trouble === null && random.percent(12) ? random.pick(BAD_CLIPS) : random.pick(GOOD_CLIPS),
    toldSeconds: random.between(0, 600),
    looks: random.percent(60) ? 0 : random.between(1, 2),
    trouble,
    breaks: trouble === null && random.percent(10) ? random.between(1, 3) : 0,
    fileAfterMs: random.percent(60) ? 0 : random.between(1, 300),
    cancelAfterMs: isCancelled ? random.between(0, random.percent(60) ? 60 : 1_500) : null,
    leavesAfterMs: !isCancelled && random.percent(6) ? random.between(0, 10) : null,
    isSentTwice: random.percent(20),
  }
}

function troubleOf(random: Seeded): Trouble {
  return random.pick(['busy', 'rejected', 'lost', 'failed', 'forbidden', 'forgotten'])
}
