/** Reads the queues of the database when somebody asks for the metrics. */

import type { Database } from '../infra/postgres/database.ts'
import type { QueueFigures } from '../infra/workMetrics.ts'
import { readDueJobs } from '../jobs/store.ts'
import type { Log } from '../lib/log.ts'
import { type Clock, SECOND_MS } from '../lib/time.ts'
import { readQueueSizes } from '../videos/queue/store.ts'
import { countSlowEndpoints, readWaiting } from '../webhooks/waiting/store.ts'

/** The rest of the page does not wait longer for the database. */
const PATIENCE_MS = 2 * SECOND_MS

interface QueueParts {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
}

/** Reads one thing at a time, whoever asks: a slow database is not asked more and more. Null: not in time, or not at all. */
export function readQueues({ database, clock, log }: QueueParts): () => Promise<QueueFigures | null> {
  let reading: Promise<QueueFigures | null> | null = null
  const read = async (): Promise<QueueFigures> => {
    const nowMs = clock.now()
    const age = (atMs: number | null) => (atMs === null ? null : Math.max(nowMs - atMs, 0) / SECOND_MS)
    const videos = await readQueueSizes(database)
    const webhooks = await readWaiting(database, nowMs)
    const jobs = await readDueJobs(database, nowMs)
    return {
      videos: videos.map(({ oldestAtMs, ...size }) => ({ ...size, oldestSeconds: age(oldestAtMs) })),
      webhooks: webhooks.map(({ oldestAtMs, ...lane }) => ({ ...lane, oldestSeconds: age(oldestAtMs) })),
      jobs: jobs.map(({ oldestAtMs, ...due }) => ({
        ...due,
        oldestSeconds: Math.max(nowMs - oldestAtMs, 0) / SECOND_MS,
      })),
      slowEndpoints: await countSlowEndpoints(database),
    }
  }
  return () => {
    reading ??= read()
      .catch((error: unknown) => {
        log.warn({ err: error }, 'queues could not be read: their metrics are left out')
        return null
      })
      .finally(() => {
        reading = null
      })
    const now = reading
    return new Promise((resolve) => {
      const cancelTimer = clock.after(PATIENCE_MS, () => resolve(null))
      void now.then((figures) => {
        cancelTimer()
        resolve(figures)
      })
    })
  }
}
