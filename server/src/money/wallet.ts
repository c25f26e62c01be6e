/**
 * This process's view of one organization's allotment: what it may spend without asking the database. Pure state; the
 * writer and the verbs of this domain change it. All amounts are micro-cents.
 */

import { type Beyond, GATES, type Gate, NOTHING_BEYOND, passedBy } from './gates.ts'
import type { PlanMeter } from './plan/meter.ts'

/** What a refill did for one organization. */
export interface Refilled extends Beyond {
  readonly organizationId: string
  /** What the process may now spend by this allotment, before its own open holds and unposted charges. */
  readonly grantedMicrocents: bigint
  /** A cap that is used up and cuts running calls (P5). */
  readonly stopped: Gate | null
  /** Whether the customer's caps bind running calls too. */
  readonly stopsRunning: boolean
  /** The first instant of the UTC day that the account had reached. */
  readonly dayStartMs: number
  /** It was granted beyond where somebody must be told: a limit that only notifies, a low balance. */
  readonly passesNotice: boolean
  /** Somebody is to be told something that was seen just now. */
  readonly noticed: boolean
}

/** Gates that bind running calls under every enforcement. */
const RUNNING_GATES: readonly Gate[] = ['balance', 'newAccount']

export class Wallet {
  readonly organizationId: string
  /** Granted by the account, as of the last refill. */
  grantedMicrocents = 0n
  /** Charges durably posted since the last refill. */
  postedMicrocents = 0n
  /** Charges on their way to the database. */
  unpostedMicrocents = 0n
  /** Set aside for calls under way. */
  heldMicrocents = 0n
  /** Holds that have not ended, those of nothing too, and calls that wait for one. */
  users = 0
  /** When a call last asked, milliseconds since the epoch. */
  usedAtMs = 0
  /** Whether the account was ever asked for anything: what came of it may have been lost on the way. */
  hasAsked = false
  /** When other processes were last asked to give something back, on the monotonic clock. */
  recalledAtMs = Number.NEGATIVE_INFINITY
  /** What the account said beside the grant, at the last refill. */
  beyond: Beyond = NOTHING_BEYOND
  stopped: Gate | null = null
  /** What is known of its plan; null where no plan is offered, or nobody has asked yet. */
  plan: PlanMeter | null = null
  dayStartMs = 0
  passesNotice = false
  /** Gates that a running call must respect when it extends its hold. */
  runningGates = RUNNING_GATES
  /** By how much the account has passed a gate: so much of this wallet is not for new calls, or not for running ones. */
  private launchPassed = 0n
  private runningPassed = 0n
  /** Calls that wait for another to give something back, first come first. */
  private readonly waiting: (() => void)[] = []

  constructor(organizationId: string) {
    this.organizationId = organizationId
  }

  /** What is left of the grant, without asking the database. Negative after an overspend. */
  get spendableMicrocents(): bigint {
    return this.grantedMicrocents - this.postedMicrocents - this.unpostedMicrocents - this.heldMicrocents
  }

  /** What of it a new hold may take. */
  get launchableMicrocents(): bigint {
    return this.spendableMicrocents - this.launchPassed
  }

  /** What of it a running call may extend its hold by. */
  get extendableMicrocents(): bigint {
    return this.spendableMicrocents - this.runningPassed
  }

  get waitingCalls(): number {
    return this.waiting.length
  }

  /** True when no call uses it and no charge of it is on its way. */
  get isIdle(): boolean {
    const isSettled = this.unpostedMicrocents === 0n && (this.plan === null || this.plan.isIdle)
    return this.users === 0 && isSettled && this.waiting.length === 0
  }

  /** Takes up what a refill has brought. No batch of this process may have been posted since it was decided. */
  take(refilled: Refilled): void {
    this.grantedMicrocents = refilled.grantedMicrocents
    this.postedMicrocents = 0n
    this.beyond = refilled
    this.stopped = refilled.stopped
    this.dayStartMs = refilled.dayStartMs
    this.passesNotice = refilled.passesNotice
    this.runningGates = refilled.stopsRunning ? GATES : RUNNING_GATES
    this.launchPassed = passedBy(refilled.rooms, GATES)
    this.runningPassed = passedBy(refilled.rooms, this.runningGates)
  }

  /** Takes what is neither spent nor held out of the wallet, to be given back; the amount. */
  takeIdle(): bigint {
    const idle = this.spendableMicrocents
    if (idle <= 0n) return 0n
    this.grantedMicrocents -= idle
    return idle
  }

  /** Queues `wake` to be called once when something has been given back; the result takes it out of the queue. */
  wait(wake: () => void): () => void {
    this.waiting.push(wake)
    return () => {
      const index = this.waiting.indexOf(wake)
      if (index >= 0) this.waiting.splice(index, 1)
    }
  }

  /** Wakes every call that waits, first come first: the first may need more than there is, and a later one fit. */
  wakeAll(): void {
    if (this.waiting.length === 0) return
    for (const wake of this.waiting.splice(0)) wake()
  }

  /** Forgets what was granted, so that nothing is spent before the account has been asked again. */
  forgetAllotment(): void {
    this.grantedMicrocents = 0n
    this.postedMicrocents = 0n
  }
}

/** Money set aside for one call. Ends exactly once: by {@link release} or by {@link spend}. */
export class Hold {
  private readonly wallet: Wallet
  /** True where a plan covers the call: it needs no money, however long it goes on, and meets no gate on it. */
  readonly isCovered: boolean
  private amount: bigint
  private ended = false

  /** Takes `microcents` out of what the wallet can spend. The caller has made sure that it is there. */
  constructor(wallet: Wallet, microcents: bigint, isCovered = false) {
    this.wallet = wallet
    this.isCovered = isCovered
    this.amount = microcents
    wallet.heldMicrocents += microcents
    wallet.users += 1
  }

  get microcents(): bigint {
    return this.amount
  }

  get isOpen(): boolean {
    return !this.ended
  }

  /** Takes more, when the wallet has it. False changes nothing: it has not, or the hold has ended. */
  tryExtend(toMicrocents: bigint): boolean {
    if (this.ended) return false
    if (this.isCovered) return true
    const more = toMicrocents - this.amount
    if (more <= 0n) return true
    if (this.wallet.extendableMicrocents < more) return false
    this.wallet.heldMicrocents += more
    this.amount = toMicrocents
    return true
  }

  /** Gives everything back. Does nothing when the hold has ended. */
  release(): void {
    this.end(0n)
  }

  /** Ends the hold in favour of a charge that is now on its way. Throws when it has ended: a call is charged once. */
  spend(costMicrocents: bigint): void {
    if (this.ended) throw new Error('a hold was spent after it had ended')
    this.end(costMicrocents)
  }

  private end(costMicrocents: bigint): void {
    if (this.ended) return
    this.ended = true
    this.wallet.users -= 1
    this.wallet.heldMicrocents -= this.amount
    this.wallet.unpostedMicrocents += costMicrocents
    this.wallet.wakeAll()
  }
}
