import type { Plan } from '../../catalog/plan.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { type Clock, MINUTE_MS, SECOND_MS, within } from '../../lib/time.ts'
import { askPlan, type Cover, type Coverable, NO_PLAN, type PlanAnswer, type PlanState } from './cover.ts'
import { type Metered, PlanMeter, type PlanMetering } from './meter.ts'
import { PlanReads } from './reads.ts'
import { weightedTokens } from './weigh.ts'

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

/** The most that a call can come to. */
export interface CallAtMost {
  /** By list price. */
  readonly wholeMicrocents: bigint
  /** Left out: it spends none. */
  readonly tokens?: { readonly prompt: number; readonly output: number }
}

/** Decides on cover in one process, and keeps its meters: one for each organization that has asked lately. */
export interface Plans {
  /** Returns the plans in force. */
  offered(): readonly Plan[]
  /**
   * Asks an organization's plan about a call that is admitted now, and can come to `atMost`. Answers at once where no plan is offered,
   * and in nearly every other case. Never rejects. Without `atMost` the answer is for a look alone: no call follows, and none that
   * is under way counts.
   */
  ask(organizationId: string, model: Coverable, nowMs: number, atMost?: CallAtMost): PlanAnswer | Promise<PlanAnswer>
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
  /** The reads of meters. The writer runs them between two batches of charges. */
  readonly reads: PlanReads
}

/** The call that a plan is asked about. */
interface Asked {
  readonly model: Coverable
  readonly nowMs: number
  readonly atMost: CallAtMost | undefined
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
  const decide = (meter: PlanMeter, state: PlanState, { model, nowMs, atMost }: Asked): PlanAnswer => {
    if (atMost === undefined) return askPlan(offered(), state, model, nowMs)
    const answer = askPlan(offered(), state, model, nowMs, meter.underWay)
    if (answer.kind !== 'covered') return answer
    // In the same step, so that the next call knows of this one.
    return { ...answer, endCall: meter.begin(answer.cover, meteredAtMost(atMost, answer.cover)) }
  }
  const askInTime = async (organizationId: string, meter: PlanMeter, asked: Asked) => {
    const reading = reads.add(organizationId, meter).then(
      () => true,
      () => false,
    )
    const isRead = await within(clock, WAIT_MS, reading, false)
    const state = meter.current
    if (isRead && state !== null) return decide(meter, state, asked)
    onUnreadable?.()
    return UNREADABLE
  }

  return {
    offered,
    meters,
    reads,
    ask(organizationId, model, nowMs, atMost) {
      if (offered().length === 0) return NO_PLAN
      const asked = { model, nowMs, atMost }
      const meter = meterOf(organizationId)
      const ageMs = clock.monotonicMs() - meter.readAtMs
      const state = meter.current
      if (state === null || ageMs > AGE_LIMIT_MS) return askInTime(organizationId, meter, asked)
      if (ageMs > REFRESH_AGE_MS) reads.add(organizationId, meter).catch(() => {})
      return decide(meter, state, asked)
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

/** Returns what a call adds to the meter at most. */
function meteredAtMost({ wholeMicrocents, tokens }: CallAtMost, { factorThousandths }: Cover): Metered {
  const usage = { promptTokens: tokens?.prompt ?? 0, cachedPromptTokens: 0, completionTokens: tokens?.output ?? 0 }
  return { ...weightedTokens(usage, factorThousandths), listMicrocents: wholeMicrocents }
}
