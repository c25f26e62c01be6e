/** Choices that a seed decides: the same seed chooses the same again. */
export interface Seeded {
  /** A whole number from `least` to `most`, both included. */
  between(least: number, most: number): number
  pick<T>(choices: readonly [T, ...T[]]): T
  /** True so many times in a hundred. */
  percent(times: number): boolean
}

/** Mulberry32: small, and good enough to choose by. */
export function seeded(seed: number): Seeded {
  let state = Math.imul(seed, 0x9e3779b1) >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const between = (least: number, most: number) => least + Math.floor(next() * (most - least + 1))
  return {
    between,
    pick: (choices) => choices[between(0, choices.length - 1)] ?? choices[0],
    percent: (times) => next() * 100 < times,
  }
}
