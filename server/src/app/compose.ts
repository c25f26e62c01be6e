import type { Metrics } from '../infra/metrics.ts'
import type { Database } from '../infra/postgres/database.ts'
import type { Log } from '../lib/log.ts'
import type { Clock } from '../lib/time.ts'
import { adminPort } from './adminPort.ts'
import { runPeriodically } from './periodic.ts'
import { readQueues } from './queues.ts'
import type { Room } from './room.ts'

export interface ComposeDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Hosts by which the admin port may be asked, beside those of the loopback. */
  readonly adminHosts: readonly string[]
  /** Begins to listen for notifications on the channels of all rooms. */
  readonly listen: (heard: Required<Pick<Room, 'channels' | 'onConfirmed'>>) => void
}

/** Composes the parts of open rooms: begins to listen, starts their periodic tasks, and shows their gauges. */
export function compose(
  rooms: readonly Room[],
  { database, clock, log, metrics, adminHosts, listen }: ComposeDependencies,
) {
  const reasons = () => rooms.flatMap((room) => room.readiness?.() ?? [])
  const warnings = () => rooms.flatMap((room) => room.warnings?.() ?? [])
  metrics.show([
    ...rooms.flatMap((room) => room.metrics ?? []),
    { name: 'tollgate_ready', help: '1 while calls can be served.', read: () => (reasons().length === 0 ? 1 : 0) },
  ])
  listen({
    channels: Object.assign({}, ...rooms.map((room) => room.channels ?? {})),
    onConfirmed: (confirmed) => {
      for (const room of rooms) room.onConfirmed?.(confirmed)
    },
  })
  for (const room of rooms) room.onOpened?.()
  const stopPeriodicTasks = runPeriodically(
    rooms.flatMap((room) => room.periodicTasks ?? []),
    clock,
    log,
  )
  return {
    handleAdmin: adminPort({
      metrics,
      queues: readQueues({ database, clock, log }),
      hosts: adminHosts,
      database,
      clock,
      reasons,
      warnings,
    }),
    listensAt(url: string): void {
      for (const room of rooms) room.listensAt?.(url)
    },
    /** In the order of the rooms: http takes no more calls and waits for the open ones, then billing writes their charges. */
    async drain(): Promise<void> {
      for (const room of rooms) await room.drain?.()
    },
    async close(): Promise<void> {
      stopPeriodicTasks()
      await Promise.all(rooms.map((room) => room.stop?.()))
      await Promise.all(rooms.map((room) => room.close?.()))
    },
  }
}
