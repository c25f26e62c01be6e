/** The transactions that were over at an instant. */
export interface Snapshot {
  /** As PostgreSQL writes it: `oldest:next:open,open…`. */
  readonly text: string
  /** Every transaction below it was over. */
  readonly oldest: string
  /** No transaction from it on was over. */
  readonly next: string
  /** The transactions between both that were not over, rising. */
  readonly open: readonly string[]
}

/** Numbers begin with no zero: PostgreSQL would take them for octal ones. */
const TEXT = /^([1-9]\d{0,17}):([1-9]\d{0,17}):((?:[1-9]\d{0,17}(?:,[1-9]\d{0,17})*)?)$/

/** Reads a snapshot by the rules of PostgreSQL; null: it is none. */
export function parseSnapshot(text: string): Snapshot | null {
  const parts = TEXT.exec(text)
  if (parts === null) return null
  const [, oldest = '', next = '', list = ''] = parts
  const open = list === '' ? [] : list.split(',')
  const numbers = open.map(BigInt)
  const isRising = numbers.every((each, index) => index === 0 || each > (numbers[index - 1] ?? 0n))
  const [first, last] = [numbers[0] ?? BigInt(oldest), numbers.at(-1) ?? BigInt(next) - 1n]
  const isWithin = BigInt(oldest) <= BigInt(next) && first >= BigInt(oldest) && last < BigInt(next)
  return isRising && isWithin ? { text, oldest, next, open } : null
}
