import type { Queryable } from '../../infra/postgres/database.ts'
import type { Clock } from '../../lib/time.ts'
import type { PlanMeter } from './meter.ts'
import { readPlanStatesOf } from './readPlan.ts'

interface Read {
  readonly meter: PlanMeter
  readonly done: Promise<void>
  readonly resolve: () => void
  readonly reject: (reason: unknown) => void
}

/** Organizations read by one statement. */
const ORGANIZATIONS_AT_ONCE = 500

/**
 * Meters that are to be read, all at once, between two batches of this process's charges: then each charge is either in the
 * figures that are read, or is added to them, never both.
 */
export class PlanReads {
  private readonly database: Queryable
  private readonly clock: Clock
  private wake = () => {}
  private reads = new Map<string, Read>()

  constructor(database: Queryable, clock: Clock) {
    this.database = database
    this.clock = clock
  }

  /** `wake` is called whenever a meter is to be read, and makes {@link run} be called. */
  attach(wake: () => void): void {
    this.wake = wake
  }

  get size(): number {
    return this.reads.size
  }

  /** Resolves when the meter has been read; rejects when that could not be done now. */
  add(organizationId: string, meter: PlanMeter): Promise<void> {
    const waiting = this.reads.get(organizationId)
    if (waiting !== undefined) return waiting.done
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.reads.set(organizationId, { meter, done: promise, resolve, reject })
    this.wake()
    return promise
  }

  /** Reads the meters that wait. Call it only while no batch of this process's charges is under way. Never rejects. */
  async run(): Promise<void> {
    const reads = new Map([...this.reads].slice(0, ORGANIZATIONS_AT_ONCE))
    for (const organizationId of reads.keys()) this.reads.delete(organizationId)
    // From before the statement: what others post meanwhile may be missing in it.
    const atMs = this.clock.monotonicMs()
    try {
      const stateOf = await readPlanStatesOf(this.database, [...reads.keys()], this.clock.now())
      for (const [organizationId, { meter, resolve }] of reads) {
        meter.take(stateOf(organizationId), atMs)
        resolve()
      }
    } catch (error) {
      for (const { reject } of reads.values()) reject(error)
    }
  }

  /** Rejects every read that waits: the database can't be asked now. */
  failAll(error: unknown): void {
    const { reads } = this
    this.reads = new Map()
    for (const { reject } of reads.values()) reject(error)
  }
}
