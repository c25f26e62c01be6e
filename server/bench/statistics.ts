/** Percentiles and medians, of samples that are all kept: the runs are short enough, and nothing is rounded. */

/** The latencies of one measurement, in milliseconds. Not a number where there was no sample. */
export interface Percentiles {
  readonly count: number
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly p999: number
  readonly max: number
}

/** A growing list of numbers in a typed array: a million samples cost 8 MB and no garbage. */
export class Samples {
  #values = new Float64Array(4096)
  #count = 0

  add(value: number): void {
    if (this.#count === this.#values.length) {
      const larger = new Float64Array(this.#values.length * 2)
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.#count++] = value
  }

  /** Sorts what was collected so far and reads the percentiles (nearest rank). */
  percentiles(): Percentiles {
    const sorted = this.#values.slice(0, this.#count).sort()
    const at = (share: number) =>
      sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN
    return { count: sorted.length, p50: at(0.5), p95: at(0.95), p99: at(0.99), p999: at(0.999), max: at(1) }
  }
}

/** The middle of a list (mean of the two middle ones for an even count); not a number for an empty one. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const half = sorted.length >> 1
  const upper = sorted[half] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[half - 1] ?? Number.NaN) + upper) / 2
}
