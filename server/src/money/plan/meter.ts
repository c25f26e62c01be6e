import { NOTHING_USED, type PlanState, type PlanUsage } from './gate.ts'

/** What one covered charge counts on the plan's meter. Tokens are weighted. */
export interface Metered {
  readonly inputTokens: bigint
  readonly outputTokens: bigint
  readonly listMicrocents: bigint
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
  private posted = NOTHING_USED
  /** On their way to the database. */
  private unposted = NOTHING_USED
  private unpostedCharges = 0

  /** When it was last read, on the monotonic clock; minus infinity: never, or not to be relied on any more. */
  get readAtMs(): number {
    return this.readAt
  }

  get hasSubscription(): boolean {
    return this.state?.subscription != null
  }

  /** True while no covered charge is on its way. */
  get isIdle(): boolean {
    return this.unpostedCharges === 0
  }

  /** What was read with this process's own charges added; null before the first read. */
  get current(): PlanState | null {
    const { state } = this
    return state && { ...state, usage: sum(sum(state.usage, this.posted), this.unposted) }
  }

  /** Takes up what was read. No batch of this process may have been posted since. */
  take(state: PlanState, atMs: number): void {
    this.state = state
    this.readAt = atMs
    this.posted = NOTHING_USED
  }

  /** The next call reads it again before it relies on it. */
  expire(): void {
    this.readAt = Number.NEGATIVE_INFINITY
  }

  /** A covered charge is on its way. */
  add(metered: Metered): void {
    this.unpostedCharges += 1
    this.unposted = sum(this.unposted, usageOf(metered))
  }

  /** A covered charge is durable, or was refused for good. */
  end(metered: Metered, isPosted: boolean): void {
    const used = usageOf(metered)
    this.unpostedCharges -= 1
    this.unposted = sum(this.unposted, negative(used))
    if (isPosted) this.posted = sum(this.posted, used)
  }
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

function sum(one: PlanUsage, other: PlanUsage): PlanUsage {
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    weeklyTokens: one.weeklyTokens + other.weeklyTokens,
    listMicrocents: one.listMicrocents + other.listMicrocents,
  }
}
