/** The work on video jobs in the background. Any number of processes do this beside each other. */

import type { InWork, Runner, Source } from '../jobs/runner.ts'
import { createRunner } from '../jobs/runner.ts'
import { doubledMs } from '../lib/backoff.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { ProviderTarget } from '../providers/dialect/spec.ts'
import { removeFile, tellProvider } from './clean.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import { LEASE_MS, type Video } from './job/video.ts'
import { videoLease } from './lease.ts'
import { look } from './look.ts'
import { startNext, waitingModels } from './queue/start.ts'
import { noteLooked, takeDue } from './store.ts'
import { findAgain, submit } from './submit.ts'
import { fail, lapse, retire } from './transitions.ts'

/** How often the process looks whether there is something to do; what it begins itself wakes it at once. */
const POLL_MS = SECOND_MS / 2

/**
 * Jobs that a process works on at once, by what there is to do: they are sent; their providers have them, and each may be a
 * download; they are over, or have waited for too long. None of these takes room from another.
 */
const AT_ONCE = { sending: 16, underWay: 64, rest: 16 } as const
/** Of each kind, those of one provider, or to be sent of one model: it may be silent. */
const OF_ONE = 1 / 2

/** After these many tries a job that may have been sent, and can't be looked for, has failed. */
const RECOVERIES_MOST = 6
/** The wait after the first of them, doubled for each up to the longest, which is that before the last. */
const RECOVERY_FIRST_MS = SECOND_MS
const RECOVERY_MOST_MS = 16 * SECOND_MS

/** For so long whoever was sending a job may still come and say what became of it: its process may be slow, not dead. */
const SAID_LATE_MS = 5 * SECOND_MS

/** How long what is under way may take to end by itself when the process stops. */
const STOP_MS = 10 * SECOND_MS

export interface VideoRunner extends Pick<Runner, 'wake' | 'inWork'> {
  /** Takes up nothing more; resolves when what is under way has ended, or was given up to others. */
  stop(): Promise<void>
}

/** A job that this process works on. */
interface VideoWork {
  readonly video: Video
  /** The targets that are asked for it, where it is to be sent; else none. */
  readonly targets: readonly ProviderTarget[]
}

type InWorks = ReadonlySet<InWork<VideoWork>>

/** Begins to work on jobs, until it is stopped. */
export function runVideos(dependencies: VideoDependencies): VideoRunner {
  const { clock, log, metrics } = dependencies
  const runner = createRunner<VideoWork>({
    clock,
    log,
    name: 'videos',
    pollMs: POLL_MS,
    patienceMs: STOP_MS,
    // Every question to a provider ends with its signal.
    abortedPatienceMs: null,
    sources: [dueSource(dependencies, 'underWay'), dueSource(dependencies, 'rest'), sendingSource(dependencies)],
    lease: videoLease(dependencies),
    idOf: ({ video }) => video.id,
    metrics,
  })
  runner.start()
  return { wake: runner.wake, inWork: runner.inWork, stop: runner.close }
}

/** The end of one job may be the turn of another of its model, or of its provider. */
const makesDue = () => true

/** Jobs that somebody has to look at. */
function dueSource(dependencies: VideoDependencies, which: 'underWay' | 'rest'): Source<VideoWork> {
  const { database, clock } = dependencies
  return {
    kind: KINDS[which],
    atOnce: AT_ONCE[which],
    makesDue,
    async claim({ room, inWork, begin }) {
      const { crowded, limit } = shares(inWork, which, room)
      const own = [...inWork].map(({ item }) => item.video.id)
      const nowMs = clock.now()
      const taking = { limit, crowded, own, nowMs, leasedUntilMs: nowMs + LEASE_MS }
      const due = await claimed(dependencies, 'due', limit <= 0 ? [] : takeDue(database, which, taking))
      for (const video of due) begin({ video, targets: [] })
      return false
    },
    async work({ video }, signal) {
      await takeUp(dependencies, video, signal)
      return 'succeeded'
    },
  }
}

/** Jobs that wait for their turn to be sent. */
function sendingSource(dependencies: VideoDependencies): Source<VideoWork> {
  let turn = 0
  return {
    kind: KINDS.sending,
    atOnce: AT_ONCE.sending,
    makesDue,
    async claim({ room, inWork, stopping, begin }) {
      const models = await waitingModels(dependencies)
      // Another one is the first each time.
      turn += 1
      let left = room
      for (let index = 0; index < models.length; index += 1) {
        const model = models[(turn + index) % models.length] ?? ''
        const limit = Math.min(left, AT_ONCE.sending * OF_ONE - countSending(inWork, model))
        if (limit <= 0) continue
        const started = await claimed(dependencies, 'start', startNext(dependencies, model, limit, stopping))
        for (const each of started) begin(each)
        left -= started.length
      }
      return false
    },
    async work({ video, targets }, _signal, stopping) {
      await submit(dependencies, video, targets, stopping)
      return 'succeeded'
    },
  }
}

const KINDS = { sending: 'video_sending', underWay: 'video_under_way', rest: 'video_rest' } as const

function countSending(inWork: InWorks, model: string): number {
  let counted = 0
  for (const { kind, item } of inWork) if (kind === KINDS.sending && item.video.model === model) counted += 1
  return counted
}

/** Providers whose share of a kind is used up, and how many of any other may be taken up. */
function shares(inWork: InWorks, which: 'underWay' | 'rest', room: number) {
  const share = AT_ONCE[which] * OF_ONE
  const counts = new Map<string, number>()
  for (const { kind, item } of inWork) {
    const provider = item.video.submission?.provider
    if (kind === KINDS[which] && provider !== undefined) counts.set(provider, (counts.get(provider) ?? 0) + 1)
  }
  const crowded = [...counts.keys()].filter((provider) => (counts.get(provider) ?? 0) >= share)
  const others = [...counts.values()].filter((many) => many < share)
  return { crowded, limit: Math.min(room, share - Math.max(...others, 0)) }
}

/** Waits for a claim and counts how long it took. */
async function claimed<T>(
  { clock, metrics }: VideoDependencies,
  claim: 'start' | 'due',
  claiming: T | Promise<T>,
): Promise<T> {
  const startedMs = clock.monotonicMs()
  const taken = await claiming
  metrics?.videosClaimed(claim, clock.monotonicMs() - startedMs)
  return taken
}

/** Does what is due for a job, which depends on its state alone. */
async function takeUp(dependencies: VideoDependencies, video: Video, signal: AbortSignal): Promise<void> {
  switch (video.status) {
    case 'queued':
      await lapse(dependencies, video)
      return
    case 'submitting':
      return recoverDead(dependencies, video, signal)
    case 'in_progress':
      return look(dependencies, video, signal)
    case 'completed':
      await retire(dependencies, video)
      return
    case 'expired':
      return removeFile(dependencies, video)
    case 'cancelled':
    case 'failed':
      return tellProvider(dependencies, video, signal)
  }
}

/** Looks for a job whose sender is dead, or as good as that: the provider may have it or not. */
async function recoverDead(dependencies: VideoDependencies, video: Video, signal: AbortSignal): Promise<void> {
  const { database, clock, log } = dependencies
  const again = (waitMs: number) =>
    noteLooked(database, video, { progress: null, missed: true, dueAtMs: clock.now() + waitMs })
  try {
    if (await findAgain(dependencies, video, signal)) return
  } catch (error) {
    if (signal.aborted) throw error
    log.warn({ err: error, video: video.id }, 'a video that may have been sent could not be looked for')
    if (video.misses + 1 < RECOVERIES_MOST) {
      return again(doubledMs(RECOVERY_FIRST_MS, RECOVERY_MOST_MS, video.misses))
    }
    await fail(dependencies, video, 'internal_error', true)
    return
  }
  if (video.misses === 0) return again(SAID_LATE_MS)
  await fail(dependencies, video, 'internal_error', true)
}
