/** What works on jobs in the background. Any number of processes do this beside each other. */

import { SECOND_MS } from '../kernel/time.ts'
import { removeFile, tellUpstream } from './clean.ts'
import type { VideoDependencies } from './dependencies.ts'
import { LEASE_MS, leased } from './lease.ts'
import { look } from './look.ts'
import { startNext, waitingModels } from './queue/start.ts'
import { noteLooked, takeDue } from './store.ts'
import { recover, submit } from './submit.ts'
import { fail, lapse, retire } from './transitions.ts'
import type { Video } from './video.ts'

/** How often it is looked whether there is something to do; what this process begins itself wakes it at once. */
const POLL_MS = SECOND_MS / 2

/** Jobs that a process works on at once: each may be a download. */
const AT_ONCE = 64

/** After these many tries a job that may have been sent, and can't be looked for, has failed. */
const RECOVERIES_MOST = 6

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
  const underWay = new Set<Promise<void>>()
  let isStopped = false
  let isAwake = false
  let wakeUp = () => {}

  const wake = () => {
    isAwake = true
    wakeUp()
  }
  const begin = (video: Video, work: (signal: AbortSignal) => Promise<void>) => {
    const done = leased(dependencies, video, stopping.signal, work)
      .catch((error: unknown) => {
        log.warn({ err: error, video: video.id }, 'work on a video broke off; it is taken up again')
      })
      .finally(() => {
        underWay.delete(done)
        wake()
      })
    underWay.add(done)
  }
  const room = () => AT_ONCE - underWay.size
  const claimed = async <T>(claim: 'start' | 'due', claiming: Promise<T>): Promise<T> => {
    const startedMs = clock.monotonicMs()
    const taken = await claiming
    metrics?.videosClaimed(claim, clock.monotonicMs() - startedMs)
    return taken
  }

  /** Whether there may be more to do at once. */
  const round = async (): Promise<void> => {
    for (const video of await claimed('due', takeDueNow(dependencies, room()))) {
      begin(video, (signal) => takeUp(dependencies, video, signal))
    }
    for (const model of await waitingModels(dependencies)) {
      if (room() <= 0) return
      for (const { video, targets } of await claimed('start', startNext(dependencies, model, room()))) {
        begin(video, (signal) => submit(dependencies, video, targets, signal))
      }
    }
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
      await looping
      const cancelTimer = clock.after(STOP_MS, () => stopping.abort(new Error('the process stops')))
      await Promise.all(underWay)
      cancelTimer()
    },
  }
}

async function takeDueNow({ database, clock }: VideoDependencies, room: number): Promise<readonly Video[]> {
  if (room <= 0) return []
  const nowMs = clock.now()
  return takeDue(database, nowMs, nowMs + LEASE_MS, room)
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
    case 'completed': {
      const expired = await retire(dependencies, video)
      return expired === null ? undefined : removeFile(dependencies, expired)
    }
    case 'expired':
      return removeFile(dependencies, video)
    case 'cancelled':
    case 'failed':
      return tellUpstream(dependencies, video, signal)
  }
}

/** Whoever was sending it is dead: the upstream may have it or not. */
async function recoverDead(dependencies: VideoDependencies, video: Video, signal: AbortSignal): Promise<void> {
  const { database, clock, log } = dependencies
  try {
    await recover(dependencies, video, 'internal_error', signal)
  } catch (error) {
    if (signal.aborted) throw error
    log.warn({ err: error, video: video.id }, 'a video that may have been sent could not be looked for')
    if (video.misses + 1 >= RECOVERIES_MOST) await fail(dependencies, video, 'internal_error', true)
    else {
      const dueAtMs = clock.now() + SECOND_MS * 2 ** video.misses
      await noteLooked(database, video, { progress: null, missed: true, dueAtMs })
    }
  }
}
