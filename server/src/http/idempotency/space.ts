/** Looks at the space in the store of large kept answers, which may be too short to take more (D6). */

import type { Artifacts } from '../../infra/artifacts.ts'
import type { Log } from '../../lib/log.ts'
import { SECOND_MS } from '../../lib/time.ts'

/** A disk with fewer free bytes is short: the rest is for the database and for answers that are being made. */
const FREE_BYTES_LEAST = 512 << 20

export const SPACE_LOOK_MS = 5 * SECOND_MS

/** The file that is written to find out whether the store takes files again. */
const PROBE = 'probe'

export interface KeptSpace {
  /** True when new answers should not be kept. */
  readonly isShort: boolean
  /** Says that a file could not be written: the space is short until one can be again. */
  failed(): void
  /** Looks at the store. Never rejects. */
  look(): Promise<void>
}

export function createKeptSpace(artifacts: Artifacts, log: Log): KeptSpace {
  let isFailing = false
  let isShort = false

  const say = (nowShort: boolean): void => {
    if (nowShort === isShort) return
    isShort = nowShort
    if (isShort)
      log.error({}, 'the store of kept answers is full or away: requests with an Idempotency-Key are refused')
    else log.info({}, 'the store of kept answers takes files again')
  }
  return {
    get isShort() {
      return isShort
    },
    failed() {
      isFailing = true
      say(true)
    },
    async look() {
      try {
        if (isFailing) {
          await artifacts.write(PROBE, onePiece(), 1)
          await artifacts.remove(PROBE)
          isFailing = false
        }
        const freeBytes = await artifacts.freeBytes?.()
        say(freeBytes !== undefined && freeBytes < FREE_BYTES_LEAST)
      } catch {
        isFailing = true
        say(true)
      }
    },
  }
}

async function* onePiece(): AsyncGenerator<Uint8Array> {
  yield new Uint8Array(1)
}
