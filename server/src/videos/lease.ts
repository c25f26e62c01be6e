import type { Lease } from '../jobs/carryOut.ts'
import { SECOND_MS } from '../lib/time.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import { LEASE_MS, type Video } from './job/video.ts'
import { renewLease } from './store.ts'

const RENEW_MS = 10 * SECOND_MS

/**
 * Returns how a job that was taken up is kept from other processes. It is lost when the job is cancelled, over, or taken up
 * by another process.
 */
export function videoLease({
  database,
  clock,
}: Pick<VideoDependencies, 'database' | 'clock'>): Lease<{ readonly video: Video }> {
  return {
    renewMs: RENEW_MS,
    renew: ({ video }) => renewLease(database, video, clock.now() + LEASE_MS),
    async giveBack({ video }) {
      // A job that was being sent is left until its lease is over: its provider may get to it only now.
      if (video.status !== 'submitting') await renewLease(database, video, clock.now())
    },
  }
}
