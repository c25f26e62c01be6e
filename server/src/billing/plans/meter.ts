import { type Cover, type CoveredCalls, NOTHING_USED, type PlanState, type PlanUsage, sumOfUsage } from './cover.ts'
import { meterOf } from './subscription.ts'

/** The amounts that one covered charge adds to the plan's meter. Tokens are weighted. */
export interface Metered {
  readonly inputTokens: bigint
  readonly outputTokens: bigint
  readonly listMicrocents: bigint
}

/** The part of a charge that counts on a plan's meter; empty unless a plan covers the charge. */
export interface PlanMetering {
  readonly cover?: Cover
  readonly metered?: Metered
}

/**
 * This process's view of one organization's plan: what was read, and what this process has charged since. Pure state,
 * made where plans are offered only. Reads never overlap with batches of the writer, so nothing counts twice.
 */
export class PlanMeter {
  private state: PlanState | null = null
  /** On the monotonic clock. */
  private readAt = Number.NEGATIVE_INFINITY
  /** Durably posted since the last read. */
  private posted = new Tally()
  /** On their way to the database. */
  private unposted = new Tally()
  private unpostedCharges = 0
  /** The most that covered calls under way can come to. */
  private atMost = new Tally()
  private calls = 0

  /** When it was last read, on the monotonic clock; minus infinity: never, or not to be relied on any more. */
  get readAtMs(): number {
    return this.readAt
  }

  get hasSubscription(): boolean {
    return this.state?.subscription != null
  }

  /** True while no covered call is under way, and no covered charge. */
  get isIdle(): boolean {
    return this.unpostedCharges === 0 && this.calls === 0
  }

  /** The covered calls that this process has under way. */
  get underWay(): CoveredCalls {
    return { count: this.calls, atMost: this.atMost.countingIn(meterStartOf(this.state)) }
  }

  /** A covered call begins, which can come to so much. Call what this returns once when it is over. */
  begin({ periodStartMs }: Cover, atMost: Metered): () => void {
    const usage = usageOf(atMost)
    this.calls += 1
    this.atMost.add(periodStartMs, usage)
    return () => {
      this.calls -= 1
      if (this.calls === 0) this.atMost = new Tally()
      else this.atMost.add(periodStartMs, negative(usage))
    }
  }

  /** The state that was read, with this process's own charges added; null before the first read. */
  get current(): PlanState | null {
    const { state } = this
    if (state === null) return null
    const startMs = meterStartOf(state)
    const own = sumOfUsage(this.posted.countingIn(startMs), this.unposted.countingIn(startMs))
    return { ...state, usage: sumOfUsage(state.usage, own) }
  }

  /** Takes up what was read. No batch of this process may have been posted since. */
  take(state: PlanState, atMs: number): void {
    this.state = state
    this.readAt = atMs
    this.posted = new Tally()
  }

  /** The next call reads it again before it relies on it. */
  expire(): void {
    this.readAt = Number.NEGATIVE_INFINITY
  }

  /** A charge is on its way. */
  add({ cover, metered }: PlanMetering): void {
    if (cover === undefined || metered === undefined) return
    this.unpostedCharges += 1
    this.unposted.add(cover.periodStartMs, usageOf(metered))
  }

  /** A charge is durable, or was refused for good. */
  end({ cover, metered }: PlanMetering, isPosted: boolean): void {
    if (cover === undefined || metered === undefined) return
    const used = usageOf(metered)
    this.unpostedCharges -= 1
    if (this.unpostedCharges === 0) this.unposted = new Tally()
    else this.unposted.add(cover.periodStartMs, negative(used))
    if (isPosted) this.posted.add(cover.periodStartMs, used)
  }
}

/**
 * Use by the period that it was admitted in, since a call may end when the next period has begun: one entry in nearly every
 * case. The week is the same for all of them.
 */
class Tally {
  private readonly periods = new Map<number, PlanUsage>()

  add(periodStartMs: number, used: PlanUsage): void {
    this.periods.set(periodStartMs, sumOfUsage(this.periods.get(periodStartMs) ?? NOTHING_USED, used))
  }

  /** Returns the use that counts in a period; for null the use that counts in the week alone. */
  countingIn(periodStartMs: number | null): PlanUsage {
    let counting = NOTHING_USED
    for (const [startMs, used] of this.periods) {
      const { weeklyTokens } = used
      counting = sumOfUsage(counting, startMs === periodStartMs ? used : { ...NOTHING_USED, weeklyTokens })
    }
    return counting
  }
}

function meterStartOf(state: PlanState | null): number | null {
  return state === null || state.subscription === null ? null : meterOf(state.subscription).startMs
}

function usageOf({ inputTokens, outputTokens, listMicrocents }: Metered): PlanUsage {
  return { inputTokens, outputTokens, weeklyTokens: inputTokens + outputTokens, listMicrocents }
}

function negative(used: PlanUsage): PlanUsage {
  return {
    inputTokens: -used.inputTokens,
    outputTokens: -used.outputTokens,
    weeklyTokens: -used.weeklyTokens,
    listMicrocents: -used.listMicrocents,
  }
}
