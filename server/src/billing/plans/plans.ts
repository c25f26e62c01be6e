import type { Plan } from '../../catalog/plan.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { type Clock, MINUTE_MS, SECOND_MS, within } from '../../lib/time.ts'
import { askPlan, type Coverable, NO_PLAN, type PlanAnswer } from './gate.ts'
import { PlanMeter, type PlanMetering } from './meter.ts'
import { PlanReads } from './reads.ts'

/** No call is decided on a figure that is older than this. */
const AGE_LIMIT_MS = SECOND_MS

/** A figure this old is read again while calls go on with it, so that none of a busy organization waits. */
const REFRESH_AGE_MS = SECOND_MS / 2

/** How long a call waits for its plan's meter before it counts as pay-as-you-go (P3). */
const WAIT_MS = SECOND_MS

/** A meter that no call has asked for this long is forgotten. */
const IDLE_MS = MINUTE_MS

export interface PlansOptions {
  readonly database: Queryable
  readonly clock: Clock
  /** Returns the plans in force. */
  readonly offered: () => readonly Plan[]
  /** Called when a meter could not be read, and a call counts as pay-as-you-go. */
  readonly onUnreadable?: () => void
}

/** The part of a charge that plans need. */
export interface PlanCharge extends PlanMetering {
  readonly organizationId: string
}

/** Decides on cover in one process, and keeps its meters: one for each organization that has asked lately. */
export interface Plans {
  /** Returns the plans in force. */
  offered(): readonly Plan[]
  /**
   * Asks an organization's plan about a call that is admitted now. Answers at once where no plan is offered, and in nearly
   * every other case. Never rejects.
   */
  ask(organizationId: string, model: Coverable, nowMs: number): PlanAnswer | Promise<PlanAnswer>
  /** Counts a covered charge that is on its way to the database. Each must come to {@link end}. */
  add(charge: PlanCharge): void
  /** Ends a charge: it is durable, or is not posted for good. Does nothing for a charge that no plan covers. */
  end(charge: PlanCharge, isPosted: boolean): void
  /** A subscription was changed: the next call of the organization reads it again. */
  hear(organizationId: string): void
  /** Forgets the meters that no call has asked for a minute, and that have no charge on its way. */
  dropIdle(): void
  /** The meters by organization. */
  readonly meters: ReadonlyMap<string, PlanMeter>
  /** The reads of meters. They belong between two batches of this process's charges. */
  readonly reads: PlanReads
}

const UNREADABLE: PlanAnswer = { kind: 'unreadable' }

export function openPlans({ database, clock, offered, onUnreadable }: PlansOptions): Plans {
  const meters = new Map<string, PlanMeter>()
  const reads = new PlanReads(database, clock)

  const meterOf = (organizationId: string): PlanMeter => {
    const known = meters.get(organizationId)
    if (known !== undefined) return known
    const meter = new PlanMeter()
    meters.set(organizationId, meter)
    return meter
  }
  const askInTime = async (organizationId: string, meter: PlanMeter, model: Coverable, nowMs: number) => {
    const reading = reads.add(organizationId, meter).then(
      () => true,
      () => false,
    )
    const isRead = await within(clock, WAIT_MS, reading, false)
    const state = meter.current
    if (isRead && state !== null) return askPlan(offered(), state, model, nowMs)
    onUnreadable?.()
    return UNREADABLE
  }

  return {
    offered,
    meters,
    reads,
    ask(organizationId, model, nowMs) {
      const plans = offered()
      if (plans.length === 0) return NO_PLAN
      const meter = meterOf(organizationId)
      const ageMs = clock.monotonicMs() - meter.readAtMs
      const state = meter.current
      if (state === null || ageMs > AGE_LIMIT_MS) return askInTime(organizationId, meter, model, nowMs)
      if (ageMs > REFRESH_AGE_MS) reads.add(organizationId, meter).catch(() => {})
      return askPlan(plans, state, model, nowMs)
    },
    add(charge) {
      meterOf(charge.organizationId).add(charge)
    },
    end(charge, isPosted) {
      if (charge.cover !== undefined) meters.get(charge.organizationId)?.end(charge, isPosted)
    },
    hear(organizationId) {
      meters.get(organizationId)?.expire()
    },
    dropIdle() {
      const readBeforeMs = clock.monotonicMs() - IDLE_MS
      for (const [organizationId, meter] of meters) {
        if (meter.isIdle && meter.readAtMs < readBeforeMs) meters.delete(organizationId)
      }
    },
  }
}
