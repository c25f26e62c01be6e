/**
 * The bound on overspending that `money/README.md` states, as a number: for each open stream one step and the prompt
 * tokens beyond a token a byte; and beside that what each of the named events adds, at the moment it happens.
 */

import { utcDay } from '../../src/kernel/time.ts'
import type { Call } from './call.ts'
import type { Snapshot } from './engine.ts'
import type { AccountRow, ChargeRow } from './model/books.ts'
import { PROMPT_EXCESS_TOKENS, STEP_TOKENS } from './script.ts'

/** What was allowed and what was seen of one organization. */
interface Seen {
  /** The most streams that were open at once, by process. */
  readonly open: Map<string, number>
  /** What one of them may come to beyond its hold. */
  stepMicrocents: bigint
  /** Allotments of a process that had lost its slot and did not know. */
  lostMicrocents: bigint
  debitedMicrocents: bigint
  /** Outstanding beyond a limit when that was lowered. */
  loweredMicrocents: bigint
  limits: string | null
  blocksLaunchesOnly: boolean
  overspentMicrocents: bigint
  boundMicrocents: bigint
}

export interface Bound {
  readonly balance: bigint
  readonly caps: bigint
  readonly newAccount: bigint
}

export class Allowances {
  readonly newAccountCap: bigint
  private readonly seen = new Map<string, Seen>()

  constructor(newAccountCapMicrocents: bigint) {
    this.newAccountCap = newAccountCapMicrocents
  }

  /** Takes up the limits and debits that the books show now. */
  notice(snapshot: Snapshot): void {
    for (const account of snapshot.accounts) this.noticeAccount(snapshot, account)
  }

  /** So many calls of an organization are open in a process now, one of them of this call's price. */
  noticeOpen(call: Call, open: number): void {
    const seen = this.of(call.organizationId)
    seen.open.set(call.machine.name, Math.max(open, seen.open.get(call.machine.name) ?? 0))
    const { price } = call.served.tier
    const rates = price.kind === 'tokens_by_time' ? [price.peak, price.offPeak] : price.kind === 'tokens' ? [price] : []
    for (const { inputMicrocents, outputMicrocents } of rates) {
      const exact = BigInt(STEP_TOKENS) * outputMicrocents + BigInt(PROMPT_EXCESS_TOKENS) * inputMicrocents
      const step = exact / 1_000_000n + 2n
      if (step > seen.stepMicrocents) seen.stepMicrocents = step
    }
  }

  /** A slot is folded whose process lives and may go on spending what it was granted. */
  noticeLost(snapshot: Snapshot, slot: number): void {
    for (const { organizationId, granted } of snapshot.allotments.filter((row) => row.slot === slot)) {
      const left = granted - sliceSum(snapshot, organizationId, slot)
      if (left > 0n) this.of(organizationId).lostMicrocents += left
    }
  }

  /** What a call went on by although a cap was reached: where caps only block launches, and over midnight. */
  extendedPastCaps(organizationId: string, charge: ChargeRow, call: Call | undefined): bigint {
    if (call === undefined) return 0n
    const endedAtMs = call.endedAtMs === 0 ? call.admittedAtMs : call.endedAtMs
    const isOverMidnight = utcDay(endedAtMs) !== utcDay(charge.admittedAtMs)
    if (!this.of(organizationId).blocksLaunchesOnly && !isOverMidnight) return 0n
    const more = charge.cost - call.worst.firstStepMicrocents
    return more > 0n ? more : 0n
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
        open: new Map(),
        stepMicrocents: 0n,
        lostMicrocents: 0n,
        debitedMicrocents: 0n,
        loweredMicrocents: 0n,
        limits: null,
        blocksLaunchesOnly: false,
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
      const open = [...seen.open.values()].reduce((sum, streams) => sum + streams, 0)
      const { stepMicrocents, lostMicrocents, debitedMicrocents, loweredMicrocents } = seen
      const named = BigInt(open) * stepMicrocents + lostMicrocents + debitedMicrocents + loweredMicrocents
      const extended = seen.boundMicrocents > named ? seen.boundMicrocents - named : 0n
      const formula = `${open} streams × ${stepMicrocents} + lost slots ${lostMicrocents} + debits ${debitedMicrocents} + lowered ${loweredMicrocents} + extended ${extended}`
      // A debit alone may take a balance below nothing: that says nothing of how near calls came.
      const isCalls = seen.boundMicrocents > 0n && debitedMicrocents === 0n
      const share = isCalls ? Number((seen.overspentMicrocents * 1_000n) / seen.boundMicrocents) / 1_000 : 0
      const words = `${organizationId} overspent ${seen.overspentMicrocents} of at most ${seen.boundMicrocents} micro-cents (${formula})`
      return { share, words }
    })
  }

  private noticeAccount(snapshot: Snapshot, account: AccountRow): void {
    const { organizationId, dailyLimit, monthlyLimit, enforcement } = account
    const seen = this.of(organizationId)
    seen.debitedMicrocents = 0n
    for (const { organizationId: whose, amount } of snapshot.entries) {
      if (whose === organizationId && amount < 0n) seen.debitedMicrocents -= amount
    }
    const limits = `${dailyLimit} ${monthlyLimit} ${enforcement}`
    if (limits === seen.limits) return
    seen.limits = limits
    if (enforcement === 'block_launch') seen.blocksLaunchesOnly = true
    const charges = snapshot.charges.filter((row) => row.organizationId === organizationId)
    const outstanding = snapshot.allotments
      .filter((row) => row.organizationId === organizationId)
      .reduce((sum, { slot, granted }) => sum + granted - sliceSum(snapshot, organizationId, slot), 0n)
    const days = Map.groupBy(charges, ({ admittedAtMs }) => utcDay(admittedAtMs))
    const months = Map.groupBy(charges, ({ admittedAtMs }) => utcDay(admittedAtMs).slice(0, 7))
    for (const [limit, windows] of [[dailyLimit, days] as const, [monthlyLimit, months] as const]) {
      for (const rows of [...windows.values(), []]) {
        const past = rows.reduce((sum, { cost }) => sum + cost, 0n) + outstanding - (limit ?? 0n)
        if (limit !== null && past > seen.loweredMicrocents) seen.loweredMicrocents = past
      }
    }
  }
}

function sliceSum(snapshot: Snapshot, organizationId: string, slot: number): bigint {
  return snapshot.slices
    .filter((row) => row.organizationId === organizationId && row.slot === slot)
    .reduce((sum, { spent }) => sum + spent, 0n)
}

/** What may be overspent of each gate. */
export function boundOf(allowances: Allowances, organizationId: string): Bound {
  const seen = allowances.of(organizationId)
  const open = [...seen.open.values()].reduce((sum, streams) => sum + streams, 0)
  const every = BigInt(open) * seen.stepMicrocents + seen.lostMicrocents
  return { balance: every + seen.debitedMicrocents, caps: every + seen.loweredMicrocents, newAccount: every }
}
