import { MINUTE_MS } from '../lib/time.ts'
import type { InstanceDependencies } from './job/dependencies.ts'
import { claimPlace } from './store.ts'

/** A place that was not seen for so long gives way to another. */
const GIVES_WAY_MS = 10 * MINUTE_MS

/**
 * Makes sure that no other place has the machines of this driver: it would take those of here for lost, and we its. Throws, with what
 * to do, where one has.
 */
export async function claimOwnPlace({
  database,
  driver: { kind: driver, place },
  clock,
}: Pick<InstanceDependencies, 'database' | 'driver' | 'clock'>): Promise<void> {
  if (place === undefined) return
  const nowMs = clock.now()
  if (await claimPlace(database, { driver, place, nowMs, sinceMs: nowMs - GIVES_WAY_MS })) return
  throw new Error(
    `instances.driver: '${driver}' has its machines on another host, or in another 'directory': stop that one and wait ten minutes, or take its settings`,
  )
}
