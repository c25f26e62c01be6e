/**
 * The rules that decide whether a call may start, and how much is set aside for it. Pure: the same functions answer real
 * calls and preflight. All amounts are micro-cents.
 */

/** The gates on money in the order in which they refuse (E1). */
export const GATES = ['balance', 'daily', 'monthly', 'newAccount'] as const
export type Gate = (typeof GATES)[number]

/** What the customer's own caps do when they are reached (P5). */
export type Enforcement = 'stop_running' | 'block_launch' | 'notify_only'

/** The cap of new organizations: charges of the last 60 minutes and open holds (K2). */
export const NEW_ACCOUNT_CAP_MICROCENTS = 2_000_000_000n

/** What each gate leaves, beside everything that is set aside; may be negative. Null: the gate is not in force. */
export interface Rooms {
  readonly balance: bigint
  readonly daily: bigint | null
  readonly monthly: bigint | null
  readonly newAccount: bigint | null
}

/** What an account has and has spent, everything posted counted in. */
export interface Figures {
  readonly balanceMicrocents: bigint
  /** Set aside for processes, and so for the calls under way: no further call may count on it. */
  readonly reservedMicrocents: bigint
  /** Set aside for work that outlives its request: of the balance, and of no other gate. */
  readonly heldMicrocents: bigint
  /** Admitted on the UTC day, and in the UTC month, that the figures were read for. */
  readonly daySpentMicrocents: bigint
  readonly monthSpentMicrocents: bigint
  /** Of the last 60 minutes, to the minute, never too low; kept for new organizations only. */
  readonly hourSpentMicrocents: bigint
  readonly isNew: boolean
  readonly dailyLimitMicrocents: bigint | null
  readonly monthlyLimitMicrocents: bigint | null
  readonly enforcement: Enforcement
}

/** What the gates leave of an account. A cap that only notifies is no gate. The statement of a refill says the same. */
export function roomsOf(figures: Figures): Rooms {
  const { reservedMicrocents: reserved, enforcement } = figures
  const capped = (limit: bigint | null, spent: bigint) =>
    limit === null || enforcement === 'notify_only' ? null : limit - spent - reserved
  return {
    balance: figures.balanceMicrocents - figures.heldMicrocents - reserved,
    daily: capped(figures.dailyLimitMicrocents, figures.daySpentMicrocents),
    monthly: capped(figures.monthlyLimitMicrocents, figures.monthSpentMicrocents),
    newAccount: figures.isNew ? NEW_ACCOUNT_CAP_MICROCENTS - figures.hourSpentMicrocents - reserved : null,
  }
}

/** The first of these gates that leaves less than `needed` when `more` is added to each; null: none does. */
export function firstShort<Among extends Gate>(
  rooms: Rooms,
  more: bigint,
  needed: bigint,
  gates: readonly Among[],
): Among | null {
  for (const gate of gates) {
    const room = rooms[gate]
    if (room !== null && room + more < needed) return gate
  }
  return null
}

/** By how much the fullest of these gates is passed; 0 when none is. */
export function passedBy(rooms: Rooms, gates: readonly Gate[]): bigint {
  let passed = 0n
  for (const gate of gates) {
    const room = rooms[gate]
    if (room !== null && -room > passed) passed = -room
  }
  return passed
}

/** What a call may come to, by settle's own pricing. Micro-cents. */
export interface Worst {
  /** The whole call: the prompt and every token it may generate. */
  readonly wholeMicrocents: bigint
  /** The prompt and one step of generation: the least that is worth starting for. */
  readonly firstStepMicrocents: bigint
}

export type Decision =
  | { readonly kind: 'hold'; readonly microcents: bigint }
  /** It fits the gates, but not beside what is set aside for others: worth waiting for that to come back. */
  | { readonly kind: 'wait' }
  | { readonly kind: 'refuse'; readonly gate: Gate }

/** What is set aside outside this process, and what the gates leave beside all that is set aside. */
export interface Beyond {
  readonly elsewhereMicrocents: bigint
  readonly rooms: Rooms
}

/** The account has nothing more, and nobody else has anything of it. */
export const NOTHING_BEYOND: Beyond = {
  elsewhereMicrocents: 0n,
  rooms: { balance: 0n, daily: null, monthly: null, newAccount: null },
}

/**
 * With this many times the worst case to spend, a call holds only its prompt and one step, and extends its hold as it
 * goes: many calls then share an allotment, and running out is far away.
 */
const AMPLE_FACTOR = 20n

/**
 * Decides on a call, given what this process may spend now, what its open calls of the organization hold, and what is
 * beyond it. Where a gate is passed already (a cap was lowered), a new call gets none of what is left here by as much.
 */
export function decide(
  spendableMicrocents: bigint,
  heldMicrocents: bigint,
  worst: Worst,
  { elsewhereMicrocents, rooms }: Beyond = NOTHING_BEYOND,
): Decision {
  const free = spendableMicrocents - passedBy(rooms, GATES)
  if (free >= worst.wholeMicrocents) {
    const ample = free >= AMPLE_FACTOR * worst.wholeMicrocents
    return { kind: 'hold', microcents: ample ? worst.firstStepMicrocents : worst.wholeMicrocents }
  }
  const othersHave = heldMicrocents + elsewhereMicrocents
  const gate = firstShort(rooms, spendableMicrocents + othersHave, worst.firstStepMicrocents, GATES)
  if (gate !== null) return { kind: 'refuse', gate }
  // Nobody else can give anything back: the call gets all that is left and is cut when that is used up (C6).
  if (othersHave <= 0n && free >= worst.firstStepMicrocents) return { kind: 'hold', microcents: free }
  return { kind: 'wait' }
}
