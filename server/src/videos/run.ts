/** What works on jobs in the background. Any number of processes do this beside each other. */

import { SECOND_MS } from '../kernel/time.ts'
import { removeFile, tellUpstream } from './clean.ts'
import type { VideoDependencies } from './dependencies.ts'
import { LEASE_MS, leased } from './lease.ts'
import { look } from './look.ts'
import { startNext, waitingModels } from './queue/start.ts'
import { noteLooked, type Taking, takeDue } from './store.ts'
import { findAgain, submit } from './submit.ts'
import { fail, lapse, retire } from './transitions.ts'
import type { Video } from './video.ts'

/** How often it is looked whether there is something to do; what this process begins itself wakes it at once. */
const POLL_MS = SECOND_MS / 2

/**
 * Jobs that a process works on at once, by what there is to do: they are sent; their upstreams have them, and each may be a
 * download; they are over, or have waited for too long. None of these takes room from another.
 */
const AT_ONCE = { sending: 16, underWay: 64, rest: 16 } as const
/** Of each kind, those of one upstream, or to be sent of one model: it may be silent. */
const OF_ONE = 1 / 2

/** After these many tries a job that may have been sent, and can't be looked for, has failed. */
const RECOVERIES_MOST = 6

/** For so long whoever was sending a job may still come and say what became of it: its process may be slow, not dead. */
const SAID_LATE_MS = 5 * SECOND_MS

/** How long what is under way may take to end by itself when the process stops. */
const STOP_MS = 10 * SECOND_MS

export interface VideoRunner {
  /** There may be something to do. */
  wake(): void
  /** Takes up nothing more; resolves when what is under way has ended, or was given up to others. */
  stop(): Promise<void>
}

export function runVideos(dependencies: VideoDependencies): VideoRunner {
  const { clock, log, metrics } = dependencies
  const stopping = new AbortController()
  const works = new Set<Work>()
  let turn = 0
  let isStopped = false
  let isAwake = false
  let wakeUp = () => {}

  const wake = () => {
    isAwake = true
    wakeUp()
  }
  const begin = (kind: Work['kind'], video: Video, act: (signal: AbortSignal) => Promise<void>) => {
    const ended = leased(dependencies, video, stopping.signal, act)
      .catch((error: unknown) => {
        log.warn({ err: error, video: video.id }, 'work on a video broke off; it is taken up again')
      })
      .finally(() => {
        works.delete(work)
        wake()
      })
    const work: Work = { kind, video, ended }
    works.add(work)
  }
  const room = (kind: Work['kind']) => AT_ONCE[kind] - count(works, (work) => work.kind === kind)
  const roomOf = (model: string) => {
    const own = count(works, ({ kind, video }) => kind === 'sending' && video.model === model)
    return Math.min(room('sending'), AT_ONCE.sending * OF_ONE - own)
  }
  /** Upstreams whose share of a kind is used up, and how many of any other may be taken up. */
  const shares = (kind: 'underWay' | 'rest') => {
    const share = AT_ONCE[kind] * OF_ONE
    const counts = new Map<string, number>()
    for (const { kind: each, video } of works) {
      const upstream = video.submission?.upstream
      if (each === kind && upstream !== undefined) counts.set(upstream, (counts.get(upstream) ?? 0) + 1)
    }
    const crowded = [...counts.keys()].filter((upstream) => (counts.get(upstream) ?? 0) >= share)
    const others = [...counts.values()].filter((many) => many < share)
    return { crowded, limit: Math.min(room(kind), share - Math.max(...others, 0)) }
  }
  const claimed = async <T>(claim: 'start' | 'due', claiming: Promise<T>): Promise<T> => {
    const startedMs = clock.monotonicMs()
    const taken = await claiming
    metrics?.videosClaimed(claim, clock.monotonicMs() - startedMs)
    return taken
  }

  const takeUpDue = async (kind: 'underWay' | 'rest') => {
    const own = [...works].map(({ video }) => video.id)
    for (const video of await claimed('due', takeDueNow(dependencies, kind, { ...shares(kind), own }))) {
      begin(kind, video, (signal) => takeUp(dependencies, video, signal))
    }
  }
  const startWaiting = async () => {
    const models = await waitingModels(dependencies)
    // Another one is the first each time.
    turn += 1
    for (let index = 0; index < models.length; index += 1) {
      const model = models[(turn + index) % models.length] ?? ''
      if (roomOf(model) <= 0) continue
      const starting = startNext(dependencies, model, roomOf(model), stopping.signal)
      for (const { video, targets } of await claimed('start', starting)) {
        begin('sending', video, () => submit(dependencies, video, targets, stopping.signal))
      }
    }
  }
  const round = async (): Promise<void> => {
    await takeUpDue('underWay')
    await takeUpDue('rest')
    await startWaiting()
  }
  const loop = async () => {
    while (!isStopped) {
      isAwake = false
      await round().catch((error: unknown) => {
        if (!isStopped) log.warn({ err: error }, 'videos could not be worked on; tried again shortly')
      })
      if (!isAwake && !isStopped) await pause()
    }
  }
  const pause = () =>
    new Promise<void>((resolve) => {
      const cancelTimer = clock.after(POLL_MS, resolve)
      wakeUp = () => {
        cancelTimer()
        resolve()
      }
    })
  const looping = loop()

  return {
    wake,
    async stop() {
      isStopped = true
      wake()
      const cancelTimer = clock.after(STOP_MS, () => stopping.abort(new Error('the process stops')))
      await looping
      await Promise.all([...works].map(({ ended }) => ended))
      cancelTimer()
    },
  }
}

/** A job that this process is at. */
interface Work {
  readonly kind: keyof typeof AT_ONCE
  readonly video: Video
  readonly ended: Promise<void>
}

function count<T>(all: ReadonlySet<T>, isCounted: (each: T) => boolean): number {
  let counted = 0
  for (const each of all) if (isCounted(each)) counted += 1
  return counted
}

async function takeDueNow(
  { database, clock }: VideoDependencies,
  kind: 'underWay' | 'rest',
  which: Pick<Taking, 'limit' | 'own' | 'crowded'>,
): Promise<readonly Video[]> {
  if (which.limit <= 0) return []
  const nowMs = clock.now()
  return takeDue(database, kind, { ...which, nowMs, leasedUntilMs: nowMs + LEASE_MS })
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
      return tellUpstream(dependencies, video, signal)
  }
}

/** Whoever was sending it is dead, or as good as that: the upstream may have it or not. */
async function recoverDead(dependencies: VideoDependencies, video: Video, signal: AbortSignal): Promise<void> {
  const { database, clock, log } = dependencies
  const again = (waitMs: number) =>
    noteLooked(database, video, { progress: null, missed: true, dueAtMs: clock.now() + waitMs })
  try {
    if (await findAgain(dependencies, video, signal)) return
  } catch (error) {
    if (signal.aborted) throw error
    log.warn({ err: error, video: video.id }, 'a video that may have been sent could not be looked for')
    if (video.misses + 1 < RECOVERIES_MOST) return again(SECOND_MS * 2 ** video.misses)
    await fail(dependencies, video, 'internal_error', true)
    return
  }
  if (video.misses === 0) return again(SAID_LATE_MS)
  await fail(dependencies, video, 'internal_error', true)
}
