/** A figure that is read when an operator asks for the metrics. */
export type Gauge = SingleGauge | LabelledGauge

interface SingleGauge {
  /** The metric's name, such as `tollgate_open_requests`. */
  readonly name: string
  readonly help: string
  readonly read: () => number
}

/** A gauge with a value for each set of labels. Rooms that give one of the same name show one metric together. */
export interface LabelledGauge {
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
  readonly readEach: () => Iterable<readonly [labels: Readonly<Record<string, string>>, value: number]>
}

/** Rows that a gauge counts at most: this bounds its query, and more would tell an operator nothing new. */
export const COUNTED_MOST = 10_000
