import type { Queryable } from '../../io/postgres/database.ts'
import type { Clock } from '../../kernel/time.ts'
import type { Wallet } from '../wallet.ts'
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

/** Meters that are to be read, all at once, when no batch of this process's charges is under way. */
export class PlanReads {
  private reads = new Map<string, Read>()

  get size(): number {
    return this.reads.size
  }

  /** Resolves when the meter has been read; rejects when that could not be done now. */
  add({ organizationId }: Wallet, meter: PlanMeter): Promise<void> {
    const waiting = this.reads.get(organizationId)
    if (waiting !== undefined) return waiting.done
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.reads.set(organizationId, { meter, done: promise, resolve, reject })
    return promise
  }

  /** Reads what is waiting. Call it only while no batch of this slot's charges is under way. Never rejects. */
  async run(database: Queryable, clock: Clock): Promise<void> {
    const reads = new Map([...this.reads].slice(0, ORGANIZATIONS_AT_ONCE))
    for (const organizationId of reads.keys()) this.reads.delete(organizationId)
    // From before the statement: what others post meanwhile may be missing in it.
    const atMs = clock.monotonicMs()
    try {
      const stateOf = await readPlanStatesOf(database, [...reads.keys()], clock.now())
      for (const [organizationId, { meter, resolve }] of reads) {
        meter.take(stateOf(organizationId), atMs)
        resolve()
      }
    } catch (error) {
      for (const { reject } of reads.values()) reject(error)
    }
  }

  failAll(error: unknown): void {
    const { reads } = this
    this.reads = new Map()
    for (const { reject } of reads.values()) reject(error)
  }
}
