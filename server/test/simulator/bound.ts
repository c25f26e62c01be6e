/**
 * The bound on overspending that `billing/README.md` states, as a number: nothing, but for what each of the named events
 * adds, at the moment it happens.
 */

import { HOUR_MS, utcDay } from '../../src/lib/time.ts'
import type { Call } from './call.ts'
import type { Snapshot } from './engine.ts'
import type { AccountRow, ChargeRow } from './model/books.ts'
import type { Plan } from './plan.ts'

/** The amounts that were allowed and seen of one organization. */
interface Seen {
  /** Shares of a process that had lost its slot and did not know. */
  lostMicrocents: bigint
  /** Late charges that are not folded in yet. */
  lateMicrocents: bigint
  debitedMicrocents: bigint
  /**
   * The amount that was outstanding beyond the balance after the last debit or change of limits, or the rest of that.
   */
  beyondBalanceMicrocents: bigint
  /** The same beyond the tighter of the limits. */
  beyondLimitsMicrocents: bigint
  /** True when a limit was ever set so low that more was outstanding. */
  wasLowered: boolean
  /** True while a limit always was there, and always one that stops what runs: then it binds instances too. */
  bindsInstances: boolean
  /** The account's day when it was last seen. */
  day: string
  /** True when that went back, as it does with the database's clock: grants of the later day may be more than this one's limits leave. */
  wasSetBack: boolean
  limits: string | null
  blocksNewCallsOnly: boolean
  /** Since when processes are to shrink running calls, as the world's clock shows; null: they need not, or have. */
  shrinkingSinceMs: number | null
  overspentMicrocents: bigint
  boundMicrocents: bigint
}

export interface Bound {
  readonly balance: bigint
  readonly limits: bigint
  readonly newAccount: bigint
}

export class Allowances {
  readonly newAccountCap: bigint
  private readonly shrunkWithinMs: number
  private readonly startMs: number
  private nowMs = 0
  private readonly seen = new Map<string, Seen>()
  /** Free slots in which there may be late charges: of a killed process, posted when its slot had been folded. */
  private readonly lateInFree = new Set<number>()

  /** `arrivesWithinMs`: by when processes have shrunk running calls, at most 2 s (P5). `startMs`: of the world, since the epoch. */
  constructor(newAccountCapMicrocents: bigint, { arrivesWithinMs, startMs }: Plan) {
    this.newAccountCap = newAccountCapMicrocents
    this.shrunkWithinMs = arrivesWithinMs
    this.startMs = startMs
  }

  /** Takes up the limits and debits that the books show now. */
  notice(snapshot: Snapshot, nowMs: number): void {
    this.nowMs = nowMs
    for (const account of snapshot.accounts) {
      this.noticeAccount(snapshot, account, nowMs)
      const late = [...this.lateInFree].map((slot) => unfoldedSum(snapshot, account.organizationId, slot))
      this.of(account.organizationId).lateMicrocents = late.reduce((sum, spent) => sum + spent, 0n)
    }
  }

  /** When running calls of the next organization must have been shrunk, as the world's clock shows; null: of none. */
  get shrunkByMs(): number | null {
    const all = [...this.seen.values()].map((seen) => this.dueMs(seen)).filter((ms) => ms !== null)
    return all.length === 0 ? null : Math.min(...all)
  }

  /** Since when running calls of an organization had to be shrunk that must have been now; null: they need not be yet. */
  shrunkSinceMs(organizationId: string, nowMs: number): number | null {
    const seen = this.of(organizationId)
    const dueMs = this.dueMs(seen)
    return dueMs !== null && dueMs <= nowMs ? seen.shrinkingSinceMs : null
  }

  private dueMs({ shrinkingSinceMs }: Seen): number | null {
    return shrinkingSinceMs === null ? null : shrinkingSinceMs + this.shrunkWithinMs
  }

  /** Processes have shrunk running calls: no more than `outstanding` can be charged beyond what gates leave. */
  tighten(snapshot: Snapshot, account: AccountRow, outstanding: bigint): void {
    this.allowBeyond(snapshot, account, outstanding)
    this.of(account.organizationId).shrinkingSinceMs = null
  }

  /** A slot is folded whose process lives and may go on spending what it was granted. */
  noticeLost(snapshot: Snapshot, slot: number): void {
    for (const { organizationId, granted } of snapshot.shares.filter((row) => row.slot === slot)) {
      const left = granted - unfoldedSum(snapshot, organizationId, slot)
      if (left > 0n) this.of(organizationId).lostMicrocents += left
    }
  }

  /** Late charges come to a slot: others may have been granted what they cost. `costs`: of each organization. */
  noticeLatePost(slot: number, isTaken: boolean, costs: ReadonlyMap<string, bigint>): void {
    if (!isTaken) this.lateInFree.add(slot)
    else for (const [organizationId, cost] of costs) this.of(organizationId).lostMicrocents += cost
  }

  hasLateCharges(slot: number): boolean {
    return this.lateInFree.has(slot)
  }

  /** All of such a slot is folded: its late charges are taken off the accounts only now. */
  noticeLateFold(snapshot: Snapshot, slot: number): void {
    this.lateInFree.delete(slot)
    for (const { organizationId } of snapshot.accounts) {
      this.of(organizationId).lostMicrocents += unfoldedSum(snapshot, organizationId, slot)
    }
  }

  /**
   * Returns the amount that a call went on by although a limit was reached: where limits only block new calls, and
   * over midnight.
   */
  extendedPastCaps(organizationId: string, charge: ChargeRow, call: Call | undefined): bigint {
    if (call === undefined) return 0n
    // Its charge may be posted before it has its answer.
    const endedAtMs = call.endedAtMs === 0 ? this.startMs + this.nowMs : call.endedAtMs
    const isOverMidnight = utcDay(endedAtMs) !== utcDay(charge.admittedAtMs)
    if (!this.of(organizationId).blocksNewCallsOnly && !isOverMidnight) return 0n
    const more = charge.cost - call.worst.firstStepMicrocents
    return more > 0n ? more : 0n
  }

  /** The cost of a call that waited or ran past the hour of its admission: it used the headroom of a later hour, as over midnight. */
  spentPastHour(charge: ChargeRow, call: Call | undefined): bigint {
    if (call === undefined) return 0n
    const endedAtMs = call.endedAtMs === 0 ? this.startMs + this.nowMs : call.endedAtMs
    return endedAtMs - charge.admittedAtMs < HOUR_MS ? 0n : charge.cost
  }

  noteOverspend(organizationId: string, over: bigint, allowed: bigint): void {
    const seen = this.of(organizationId)
    if (over > seen.overspentMicrocents) seen.overspentMicrocents = over
    if (allowed > seen.boundMicrocents) seen.boundMicrocents = allowed
  }

  of(organizationId: string): Seen {
    let seen = this.seen.get(organizationId)
    if (seen === undefined) {
      seen = {
        lostMicrocents: 0n,
        lateMicrocents: 0n,
        debitedMicrocents: 0n,
        beyondBalanceMicrocents: 0n,
        beyondLimitsMicrocents: 0n,
        wasLowered: false,
        bindsInstances: true,
        day: '',
        wasSetBack: false,
        limits: null,
        blocksNewCallsOnly: false,
        shrinkingSinceMs: null,
        overspentMicrocents: 0n,
        boundMicrocents: 0n,
      }
      this.seen.set(organizationId, seen)
    }
    return seen
  }

  /** The formula with its figures, for each organization, and how much of the bound was used. */
  print(): { readonly share: number; readonly words: string }[] {
    return [...this.seen].map(([organizationId, seen]) => {
      const { lostMicrocents, debitedMicrocents, beyondBalanceMicrocents, beyondLimitsMicrocents } = seen
      const named = lostMicrocents + beyondBalanceMicrocents + beyondLimitsMicrocents
      const extended = seen.boundMicrocents > named ? seen.boundMicrocents - named : 0n
      const formula = `lost slots ${lostMicrocents} + beyond the balance ${beyondBalanceMicrocents} + beyond limits ${beyondLimitsMicrocents} + extended ${extended}`
      // A debit alone may take a balance below nothing: that says nothing of how near calls came.
      const isCalls = seen.boundMicrocents > 0n && debitedMicrocents === 0n
      const share = isCalls ? Number((seen.overspentMicrocents * 1_000n) / seen.boundMicrocents) / 1_000 : 0
      const words = `${organizationId} overspent ${seen.overspentMicrocents} of at most ${seen.boundMicrocents} micro-cents (${formula})`
      return { share, words }
    })
  }

  private noticeAccount(snapshot: Snapshot, account: AccountRow, nowMs: number): void {
    const { organizationId, dailyLimit, monthlyLimit, enforcement } = account
    const seen = this.of(organizationId)
    seen.wasSetBack ||= account.day < seen.day
    seen.day = account.day
    const debitedMicrocents = snapshot.entries
      .filter(({ organizationId: whose, amount }) => whose === organizationId && amount < 0n)
      .reduce((sum, { amount }) => sum - amount, 0n)
    seen.bindsInstances &&= enforcement === 'stop_running' && monthlyLimit !== null
    const limits = `${dailyLimit} ${monthlyLimit} ${enforcement}`
    if (limits === seen.limits && debitedMicrocents === seen.debitedMicrocents) return
    seen.limits = limits
    seen.debitedMicrocents = debitedMicrocents
    seen.blocksNewCallsOnly = enforcement === 'block_launch'
    const outstanding = snapshot.shares
      .filter((row) => row.organizationId === organizationId)
      .reduce((sum, { slot, granted }) => sum + granted - unfoldedSum(snapshot, organizationId, slot), 0n)
    this.allowBeyond(snapshot, account, outstanding)
    seen.wasLowered ||= seen.beyondLimitsMicrocents > 0n
    const isBeyond = seen.beyondBalanceMicrocents > 0n || seen.beyondLimitsMicrocents > 0n
    seen.shrinkingSinceMs = isBeyond && enforcement === 'stop_running' ? nowMs : null
  }

  /** So much may still be charged of what was set aside before: what of it is beyond the balance, and beyond limits. */
  private allowBeyond(snapshot: Snapshot, account: AccountRow, outstanding: bigint): void {
    const { organizationId, dailyLimit, monthlyLimit } = account
    const seen = this.of(organizationId)
    const spent = snapshot.unfoldedSpend
      .filter((row) => row.organizationId === organizationId)
      .reduce((sum, row) => sum + row.spent, 0n)
    seen.beyondBalanceMicrocents = atLeastNothing(outstanding + account.held - (account.balance - spent))
    seen.beyondLimitsMicrocents = 0n
    const charges = snapshot.charges.filter((row) => row.organizationId === organizationId)
    const days = Map.groupBy(charges, ({ admittedAtMs }) => utcDay(admittedAtMs))
    const months = Map.groupBy(charges, ({ admittedAtMs }) => utcDay(admittedAtMs).slice(0, 7))
    for (const [limit, windows] of [[dailyLimit, days] as const, [monthlyLimit, months] as const]) {
      if (limit === null) continue
      for (const rows of [...windows.values(), []]) {
        const past = rows.reduce((sum, { cost }) => sum + cost, 0n) + outstanding + account.instancesHeld - limit
        if (past > seen.beyondLimitsMicrocents) seen.beyondLimitsMicrocents = past
      }
    }
  }
}

const atLeastNothing = (amount: bigint) => (amount > 0n ? amount : 0n)

/** Returns the sum of a slot's charges that are posted and not folded in yet. */
export function unfoldedSum(snapshot: Snapshot, organizationId: string, slot: number): bigint {
  return snapshot.unfoldedSpend
    .filter((row) => row.organizationId === organizationId && row.slot === slot)
    .reduce((sum, { spent }) => sum + spent, 0n)
}

/** Returns the most that may be overspent of each gate. */
export function boundOf(allowances: Allowances, organizationId: string): Bound {
  const seen = allowances.of(organizationId)
  const lost = seen.lostMicrocents + seen.lateMicrocents
  return {
    balance: lost + seen.beyondBalanceMicrocents,
    limits: lost + seen.beyondLimitsMicrocents,
    newAccount: lost,
  }
}
