/**
 * The rules that decide whether a call may start, and how much is held for it. Pure: real calls and preflight share the
 * headroom; preflight does not look at the cap of new accounts. All amounts are micro-cents.
 */

import { MICROCENTS_PER_DOLLAR } from '../../lib/money.ts'

/** The gates on money in the order in which they refuse (E1). */
export const GATES = ['balance', 'daily', 'monthly', 'newAccount'] as const
export type Gate = (typeof GATES)[number]

/** How the customer's own limits act when they are reached (P5). */
export type Enforcement = 'stop_running' | 'block_launch' | 'notify_only'

/** The cap of new accounts: charges of the last 60 minutes and open holds, without instances, and the burn (K2). */
export const NEW_ACCOUNT_CAP_MICROCENTS = 20n * MICROCENTS_PER_DOLLAR

/**
 * Charges of instances are posted under this slot, which no process has, while their account is locked. The spend of
 * this slot does not count to the last hour of a new account: the cap counts the hourly price of its instances
 * instead.
 */
export const INSTANCES_SLOT = -2

/** The cap in words, for refusals and help. */
export const NEW_ACCOUNT_CAP = `$${NEW_ACCOUNT_CAP_MICROCENTS / MICROCENTS_PER_DOLLAR} in 60 minutes`

/** The amount that each gate leaves, beside everything that is held; may be negative. Null: the gate is not in force. */
export interface Headroom {
  readonly balance: bigint
  readonly daily: bigint | null
  readonly monthly: bigint | null
  readonly newAccount: bigint | null
}

/** The balance and the spending of an account, everything posted counted in. */
export interface Figures {
  readonly balanceMicrocents: bigint
  /** Granted to processes, and so held for the calls under way: no further call may count on it. */
  readonly sharesMicrocents: bigint
  /** Held for work that outlives its request: of the balance, and of no other gate. */
  readonly heldMicrocents: bigint
  /** The part of that which instances hold: where reaching a limit stops them, it counts against the limits too. */
  readonly instancesHeldMicrocents: bigint
  /** The hourly prices of live instances together. */
  readonly burnMicrocents: bigint
  /** Admitted on the UTC day, and in the UTC month, that the figures were read for. */
  readonly daySpentMicrocents: bigint
  readonly monthSpentMicrocents: bigint
  /** Of the last 60 minutes, to the minute, never too low; kept for new accounts only. */
  readonly hourSpentMicrocents: bigint
  readonly isNew: boolean
  readonly dailyLimitMicrocents: bigint | null
  readonly monthlyLimitMicrocents: bigint | null
  readonly enforcement: Enforcement
}

/**
 * The amount that the gates leave of an account. A limit that only notifies is no gate. `renewal/store.ts` and, for holds of
 * instances, `holds/store.ts` say the same in SQL.
 */
export function headroomOf(figures: Figures): Headroom {
  const { sharesMicrocents: granted, enforcement } = figures
  const stoppable = enforcement === 'stop_running' ? figures.instancesHeldMicrocents : 0n
  const limited = (limit: bigint | null, spent: bigint) =>
    limit === null || enforcement === 'notify_only' ? null : limit - spent - granted - stoppable
  return {
    balance: figures.balanceMicrocents - figures.heldMicrocents - granted,
    daily: limited(figures.dailyLimitMicrocents, figures.daySpentMicrocents),
    monthly: limited(figures.monthlyLimitMicrocents, figures.monthSpentMicrocents),
    newAccount: figures.isNew
      ? NEW_ACCOUNT_CAP_MICROCENTS - figures.hourSpentMicrocents - granted - figures.burnMicrocents
      : null,
  }
}

/** The first of these gates that leaves less than `needed` when `more` is added to each; null: none does. */
export function firstInsufficient<Among extends Gate>(
  headroom: Headroom,
  more: bigint,
  needed: bigint,
  gates: readonly Among[],
): Among | null {
  for (const gate of gates) {
    const left = headroom[gate]
    if (left !== null && left + more < needed) return gate
  }
  return null
}

/** The gates that decide whether an organization is funded (P2), in the order of E1. The cap of new accounts is none of them. */
export const FUNDING_GATES = ['balance', 'daily', 'monthly'] as const
export type FundingGate = (typeof FUNDING_GATES)[number]

/** The gates that bind an instance that lives: a limit only where reaching it stops what runs. */
export function gatesOfLiving({ enforcement }: Pick<Figures, 'enforcement'>): readonly FundingGate[] {
  return enforcement === 'stop_running' ? FUNDING_GATES : ['balance']
}

/** The least that any of these gates leaves; null: none of them is in force. */
export function leastHeadroom(headroom: Headroom, gates: readonly Gate[]): bigint | null {
  let least: bigint | null = null
  for (const gate of gates) {
    const left = headroom[gate]
    if (left !== null && (least === null || left < least)) least = left
  }
  return least
}

/**
 * The first gate that leaves less than `needed`, whatever is held for calls under way: that may come back within
 * moments. Money that is held for jobs is not counted on: they take long, and most of them spend it.
 */
export function insufficientFunds(
  figures: Figures,
  gates: readonly FundingGate[] = FUNDING_GATES,
  needed = 1n,
): FundingGate | null {
  return firstInsufficient(headroomOf({ ...figures, sharesMicrocents: 0n }), 0n, needed, gates)
}

/** By how much the fullest of these gates is passed; 0 when none is. */
export function exceededBy(headroom: Headroom, gates: readonly Gate[]): bigint {
  let passed = 0n
  for (const gate of gates) {
    const left = headroom[gate]
    if (left !== null && -left > passed) passed = -left
  }
  return passed
}

/** The most that a call may cost, by settle's own pricing. Micro-cents. */
export interface WorstCase {
  /** The whole call: the prompt and every token it may generate. 0 only where no usage of the call would cost anything. */
  readonly wholeMicrocents: bigint
  /** The prompt and one step of generation: the least that is worth starting for. */
  readonly firstStepMicrocents: bigint
  /** The tokens of the whole call, for plans; left out: it spends none. */
  readonly tokens?: { readonly prompt: number; readonly output: number }
}

export type Decision =
  | { readonly kind: 'hold'; readonly microcents: bigint }
  /** It fits the gates, but not beside what is held for others: worth waiting for that to come back. */
  | { readonly kind: 'wait' }
  | { readonly kind: 'refuse'; readonly gate: Gate }

/**
 * The account as the last renewal saw it: the amount that other processes are granted, and what the gates leave beside all
 * that is granted.
 */
export interface AccountView {
  readonly grantedToOthersMicrocents: bigint
  readonly headroom: Headroom
}

/** The account has nothing more, and nobody else has anything of it. */
export const NOTHING_LEFT: AccountView = {
  grantedToOthersMicrocents: 0n,
  headroom: { balance: 0n, daily: null, monthly: null, newAccount: null },
}

/**
 * With this many times the worst case to spend, a call holds only its prompt and one step, and extends its hold as it
 * goes: many calls then draw on one share, and running out is far away.
 */
const AMPLE_FACTOR = 20n

/**
 * Decides on a call, given what this process may spend now, what its open calls of the organization hold, and the
 * account. Where a gate is passed already (a limit was lowered), a new call gets none of what is left here by as much.
 */
export function decide(
  spendableMicrocents: bigint,
  heldMicrocents: bigint,
  worst: WorstCase,
  { grantedToOthersMicrocents, headroom }: AccountView = NOTHING_LEFT,
): Decision {
  const free = spendableMicrocents - exceededBy(headroom, GATES)
  if (free >= worst.wholeMicrocents) {
    const ample = free >= AMPLE_FACTOR * worst.wholeMicrocents
    return { kind: 'hold', microcents: ample ? worst.firstStepMicrocents : worst.wholeMicrocents }
  }
  const othersHave = heldMicrocents + grantedToOthersMicrocents
  const gate = firstInsufficient(headroom, spendableMicrocents + othersHave, worst.firstStepMicrocents, GATES)
  if (gate !== null) return { kind: 'refuse', gate }
  // Nobody else can give anything back: the call gets all that is left and is cut when that is used up (C6).
  if (othersHave <= 0n && free >= worst.firstStepMicrocents) return { kind: 'hold', microcents: free }
  return { kind: 'wait' }
}
