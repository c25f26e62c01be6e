/** Part of `app.ts`: the limits of keys, in memory or in the Redis that processes share. */

import { type Limits, openLimits } from '../edge/limits/openLimits.ts'
import { LIMITS_SCRIPT, PROBE } from '../edge/limits/script.ts'
import { connectRedis } from '../io/redis/connection.ts'
import { openSharedScript } from '../io/redis/sharedScript.ts'
import { type RandomBytes, toHex } from '../kernel/ids.ts'
import type { Log } from '../kernel/log.ts'
import type { Secret } from '../kernel/secret.ts'
import type { Clock } from '../kernel/time.ts'

interface LimitParts {
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  readonly openRequestsPerKey: number
  /** Null: this process has its own. */
  readonly redisUrl: Secret | null
  readonly onSkipped: () => void
}

export function wireLimits({ clock, random, log, openRequestsPerKey, redisUrl, onSkipped }: LimitParts): Limits {
  return openLimits(
    { clock, openRequestsPerKey },
    redisUrl && {
      open: (onReady) =>
        openSharedScript({
          url: redisUrl.reveal(),
          script: LIMITS_SCRIPT,
          probe: PROBE,
          connect: connectRedis,
          clock,
          log,
          onReady,
        }),
      processName: toHex(random(8)),
      onSkipped,
    },
  )
}
