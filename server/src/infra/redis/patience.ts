/** Less would take the scheduling of a busy machine for a store that is away. A healthy store answers in 0.1 to 2 ms. */
const LEAST_MS = 2
/** More would slow calls: a store that is this far away limits nobody. */
const MOST_MS = 20

/** Weights of the newest round trip, and how many deviations above the mean still count as usual: those of RFC 6298. */
const MEAN_GAIN = 1 / 8
const DEVIATION_GAIN = 1 / 4
const DEVIATIONS = 4

/** How long an answer may take, judged by the round trips before it. */
export class Patience {
  private meanMs: number | null = null
  private deviationMs = 0

  /** Milliseconds, 2 to 20; 20 before the first round trip. */
  get limitMs(): number {
    if (this.meanMs === null) return MOST_MS
    return Math.min(Math.max(this.meanMs + DEVIATIONS * this.deviationMs, LEAST_MS), MOST_MS)
  }

  /** An answer came after so long. */
  note(roundTripMs: number): void {
    if (this.meanMs === null) {
      this.meanMs = roundTripMs
      this.deviationMs = roundTripMs / 2
      return
    }
    this.deviationMs += DEVIATION_GAIN * (Math.abs(roundTripMs - this.meanMs) - this.deviationMs)
    this.meanMs += MEAN_GAIN * (roundTripMs - this.meanMs)
  }
}
