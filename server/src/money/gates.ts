/**
 * The rules that decide whether a call may start, and how much is set aside for it. Pure: the same functions answer real
 * calls and preflight. This version knows one gate, the balance.
 */

/** What a call may come to, by settle's own pricing. Micro-cents. */
export interface Worst {
  /** The whole call: the prompt and every token it may generate. */
  readonly wholeMicrocents: bigint
  /** The prompt and one step of generation: the least that is worth starting for. */
  readonly firstStepMicrocents: bigint
}

export type Decision =
  | { readonly kind: 'hold'; readonly microcents: bigint }
  /** It fits the balance, but not beside what open calls hold: worth waiting for one of them to end. */
  | { readonly kind: 'wait' }
  | { readonly kind: 'refuse'; readonly gate: 'balance' }

/**
 * With this many times the worst case to spend, a call holds only its prompt and one step, and extends its hold as it
 * goes: many calls then share an allotment, and running out is far away.
 */
const AMPLE_FACTOR = 20n

/**
 * Decides on a call, given what is spendable now (balance less everything held and allotted elsewhere) and what this
 * process's other open calls of the organization hold.
 */
export function decide(spendableMicrocents: bigint, heldMicrocents: bigint, worst: Worst): Decision {
  if (spendableMicrocents >= worst.wholeMicrocents) {
    const ample = spendableMicrocents >= AMPLE_FACTOR * worst.wholeMicrocents
    return { kind: 'hold', microcents: ample ? worst.firstStepMicrocents : worst.wholeMicrocents }
  }
  if (heldMicrocents > 0n) {
    const couldFit = spendableMicrocents + heldMicrocents >= worst.firstStepMicrocents
    return couldFit ? { kind: 'wait' } : { kind: 'refuse', gate: 'balance' }
  }
  // Nobody else can give anything back: the call gets all that is left and is cut when that is used up (C6).
  if (spendableMicrocents >= worst.firstStepMicrocents) return { kind: 'hold', microcents: spendableMicrocents }
  return { kind: 'refuse', gate: 'balance' }
}
