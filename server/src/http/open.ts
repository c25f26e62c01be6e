import { type ArtifactPlace, openArtifacts } from '../infra/artifacts/open.ts'
import type { Metrics } from '../infra/metrics.ts'
import { connectRedis } from '../infra/redis/connection.ts'
import { openSharedScript } from '../infra/redis/sharedScript.ts'
import { ByteBudget } from '../lib/byteBudget.ts'
import type { DataKeys } from '../lib/dataKeys.ts'
import { toHex } from '../lib/ids.ts'
import type { Secret } from '../lib/secret.ts'
import { MINUTE_MS, SECOND_MS, sleep } from '../lib/time.ts'
import { createBodyDeadlines } from './bodyDeadline.ts'
import { createBodyWork } from './bodyWork.ts'
import { type AttemptsDependencies, createAttempts } from './idempotency/attempts.ts'
import { createKeptBodies } from './idempotency/keptBodies.ts'
import { createKeptQuota, type QuotaDependencies } from './idempotency/quota.ts'
import { createKeptSpace, SPACE_LOOK_MS } from './idempotency/space.ts'
import { forgetAnswer } from './idempotency/store.ts'
import { adoptLiving, freeAbandoned, sweepAttempts } from './idempotency/sweep.ts'
import { createLifecycle } from './lifecycle.ts'
import { createBodyMemory } from './limits/bodyMemory.ts'
import { type Limits, openLimits } from './limits/openLimits.ts'
import { createOrganizationTurns, type TurnBounds } from './limits/organizationTurns.ts'
import { LIMITS_SCRIPT, PROBE } from './limits/script.ts'
import { createOpenCalls } from './openCalls.ts'
import { createTurns, PIECE_EVERY_MS } from './replay.ts'
import { createReplayMemory } from './replayMemory.ts'

/** Bodies of one caller that may arrive at once; where a key may have more requests open, as many as those. */
const ARRIVING_LEAST = 100

/** Memory of all answers over a MiB that are read, worked on or sent at one time, and of replays on their way. */
const LARGE_ANSWERS_BYTES = 256 << 20

/**
 * One organization leaves the rest of that to others. The largest of embeddings has room while it is worked on, the largest of
 * images while it leaves.
 */
const ORGANIZATION_LARGE_ANSWERS_BYTES = LARGE_ANSWERS_BYTES / 2

/** Calls that wait for some of it at one time; each has its provider's answer begun. */
const LARGE_ANSWERS_WAITING = 64

/**
 * Bounds of the reads of one organization. Two are under way at once: half of the connections for reads (`infra/postgres/reads.ts`). 200
 * wait: several times what its pages and programs ask for at once. A read waits at most 1.5 s for its turn, and then at most 5 s for
 * the database (E14).
 */
const READ_TURNS: TurnBounds = { underWayMost: 2, waitingMost: 200, waitMostMs: 1.5 * SECOND_MS }

export interface HttpOptions
  extends Omit<AttemptsDependencies, 'bodies' | 'quota' | 'space' | 'onAsked'>,
    Pick<QuotaDependencies, 'quota' | 'chargedMicrocents'> {
  /** Encrypt the bodies of kept answers. */
  readonly dataKeys: DataKeys
  /** Where large answers are kept. */
  readonly place: ArtifactPlace
  readonly dataDirectory: string
  readonly bounds: {
    readonly openRequestsPerKey: number
    /** Of all request bodies under way. */
    readonly bodyMemoryBytes: number
    /** From the head of a request to the last byte of its body. */
    readonly bodyDeadlineMs: number
  }
  /** Of the Redis in which processes share the limits of keys; null: this process has its own. */
  readonly redisUrl: Secret | null
  readonly metrics: Pick<Metrics, 'idempotent' | 'limitSkipped'>
}

/** Opens the room of requests: the count of open ones, the limits of keys, and the answers kept for Idempotency-Keys. */
export async function openHttp(options: HttpOptions) {
  const { database, clock, random, log, slot, place, dataDirectory, metrics } = options
  // The process that had this slot before is dead.
  await freeAbandoned(database, slot(), () => [])
  const artifacts = openArtifacts(place, 'answers', dataDirectory, { clock, random })
  const space = createKeptSpace(artifacts, log)
  await space.look()
  const quota = createKeptQuota(options)
  const bodies = createKeptBodies({ ...options, artifacts, space })
  const attempts = createAttempts({ ...options, bodies, quota, space, onAsked: metrics.idempotent })
  const memoryBudget = new ByteBudget(LARGE_ANSWERS_BYTES, LARGE_ANSWERS_WAITING, ORGANIZATION_LARGE_ANSWERS_BYTES)
  const replayMemory = createReplayMemory(memoryBudget)
  const lifecycle = createLifecycle()
  const limits = limitsOf(options)
  const requestBodies = openBodies(options)
  return {
    kept: {
      attempts,
      replays: { clock, log, memory: replayMemory, turn: createTurns(() => sleep(clock, PIECE_EVERY_MS)) },
    },
    memoryBudget,
    lifecycle,
    limits,
    readTurns: createOrganizationTurns(options.clock, READ_TURNS),
    requestBodies: requestBodies.parts,
    openCalls: createOpenCalls(),
    forgetAnswer,
    /** This process had lost its slot, and may have another one now. Where it fails, the next sweep does it. */
    onSlotRegained: () => void adoptLiving({ database, slot, attempts }).catch(() => {}),
    periodicTasks: [
      {
        name: 'kept answers',
        everyMs: MINUTE_MS,
        run: (isStopping: () => boolean) => sweepAttempts({ database, clock, slot, attempts, artifacts }, isStopping),
      },
      { name: 'space for kept answers', everyMs: SPACE_LOOK_MS, run: space.look },
    ],
    metrics: [
      { name: 'tollgate_open_requests', help: 'Requests under way.', read: () => lifecycle.openRequests },
      ...requestBodies.metrics,
      {
        name: 'tollgate_replay_bytes',
        help: 'Memory taken by replays of kept answers on their way.',
        read: () => replayMemory.takenBytes,
      },
      {
        name: 'tollgate_kept_answers_store_up',
        help: '0 while the store of kept answers is full or away: requests with an Idempotency-Key are refused.',
        read: () => (space.isShort ? 0 : 1),
      },
      {
        name: 'tollgate_limit_store_up',
        help: 'Whether the shared store of limits answers; 1 too if this process shares none.',
        read: () => (limits.isStoreAway() ? 0 : 1),
      },
    ],
    readiness: () => (lifecycle.isAdmitting() ? [] : ['the server is stopping']),
    async drain(): Promise<void> {
      lifecycle.close()
      await lifecycle.drained()
    },
    async close(): Promise<void> {
      limits.close()
      await requestBodies.parts.bodyWork.close()
    },
  }
}

/** The reading of request bodies: the memory of all, their deadlines, and the thread for large ones. */
function openBodies({ clock, log, bounds }: HttpOptions) {
  const bodyWork = createBodyWork(log, clock)
  const bodyMemory = createBodyMemory(bounds.bodyMemoryBytes, Math.max(bounds.openRequestsPerKey, ARRIVING_LEAST))
  return {
    parts: { bodyWork, bodyMemory, bodyDeadlines: createBodyDeadlines(clock, bounds.bodyDeadlineMs) },
    metrics: [
      {
        name: 'tollgate_request_body_bytes',
        help: 'Memory taken by request bodies under way, of body_memory_bytes.',
        read: () => bodyMemory.takenBytes,
      },
      {
        name: 'tollgate_waiting_request_bodies',
        help: 'Large request bodies that are decompressed or parsed, or wait for that.',
        read: () => bodyWork.waiting,
      },
    ],
  }
}

/** The limits of keys: in memory, or in the Redis that processes share. */
function limitsOf({ clock, random, log, bounds, redisUrl, metrics }: HttpOptions): Limits {
  return openLimits(
    { clock, openRequestsPerKey: bounds.openRequestsPerKey },
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
      onSkipped: metrics.limitSkipped,
    },
  )
}
