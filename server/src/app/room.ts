import type { Route } from '../http/route.ts'
import type { JobHandler } from '../jobs/handler.ts'
import type { Gauge } from '../lib/gauge.ts'
import type { PeriodicTask } from '../lib/periodicTask.ts'

/**
 * The parts of a room that the application composes, as far as the room has them. The `open…` function of a room's `open.ts`
 * gives them, beside the things that other rooms need of it.
 */
export interface Room {
  readonly routes?: readonly Route[]
  /** Work that every process does again and again. It begins once every room is open. */
  readonly periodicTasks?: readonly PeriodicTask[]
  /** How jobs of the table `jobs` are worked on: one for each kind that the room has. */
  readonly jobHandlers?: readonly JobHandler[]
  /** Tells where the server listens, such as `http://127.0.0.1:8080`, for links where the settings have no public URL. */
  readonly listensAt?: (url: string) => void
  readonly metrics?: readonly Gauge[]
  /** Handlers of notifications, by channel. They must not throw. */
  readonly channels?: Readonly<Record<string, (payload: string) => void>>
  /**
   * Called with each change of whether notifications are known to arrive. After `true` some may have been missed before; after
   * `false` the database is asked in place of a cache.
   */
  readonly onConfirmed?: (confirmed: boolean) => void
  /** Returns the reasons why no call can be served now, a line each; an empty list when the room is ready. Must not wait. */
  readonly readiness?: () => readonly string[]
  /** Returns what an operator should look at though calls are served, a line each. Must not wait. */
  readonly warnings?: () => readonly string[]
  /** Called once, when every room is open: begins work that needs other rooms. Must not wait. */
  readonly onOpened?: () => void
  /** Takes nothing more from clients; resolves when what is open has ended. Rooms drain in the order in which they opened. */
  readonly drain?: () => Promise<void>
  /** Ends work in the background that uses other rooms. Every room stops before any is closed. */
  readonly stop?: () => Promise<void>
  /** Gives everything back. All rooms close at once. */
  readonly close?: () => Promise<void> | void
}
