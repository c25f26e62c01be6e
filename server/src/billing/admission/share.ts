/**
 * This process's share of one organization's account: what it may spend without asking the database. Pure state; the
 * writer and the verbs of this room change it. All amounts are micro-cents.
 */

import { DAY_MS } from '../../lib/time.ts'
import { type AccountView, exceededBy, GATES, type Gate, NOTHING_LEFT } from './gates.ts'
import type { Renewed } from './wants.ts'

/** Gates that bind running calls under every enforcement. */
const RUNNING_GATES: readonly Gate[] = ['balance', 'newAccount']

export class Share {
  readonly organizationId: string
  /** Granted by the account, as of the last renewal. */
  grantedMicrocents = 0n
  /** Charges durably posted since the last renewal. */
  postedMicrocents = 0n
  /** Charges on their way to the database. */
  unpostedMicrocents = 0n
  /** Held for calls under way. */
  heldMicrocents = 0n
  /** Holds that have not ended, those of nothing too, and calls that wait for one. */
  openUses = 0
  /** When a call last asked, on the monotonic clock. */
  usedAtMs = 0
  /** True when the account was ever asked for anything: what came of it may have been lost on the way. */
  hasAsked = false
  /** Wants of calls and of others that the account has not answered yet, those not asked yet too. */
  private asks = 0
  /** The account changed while a renewal was under way and nothing was here: it is answered when the renewal is back. */
  private hasToAnswer = false
  /** True when the account's last answer has come, no answer before it was lost, and the account was asked for nothing since. */
  isCertain = false
  /** An answer was lost. The statement may still be carried out, and the next answer leave out what it brings. */
  private hasLostAnswer = false
  /** When other processes were last asked to give something back, on the monotonic clock. */
  reclaimedAtMs = Number.NEGATIVE_INFINITY
  /** The same, of when all that have anything of the account were asked: those that have nothing idle too. */
  allAskedAtMs = Number.NEGATIVE_INFINITY
  /** When the account last left too little for a call, by the monotonic clock. */
  shortAtMs = Number.NEGATIVE_INFINITY
  account: AccountView = NOTHING_LEFT
  exhaustedLimit: Gate | null = null
  dayStartMs = 0
  /** The UTC day for which what an earlier day had granted was last given back, in days since the epoch. */
  private givenBackForDay = 0
  reachesNotice = false
  /** Gates that a running call must respect when it extends its hold. */
  runningGates = RUNNING_GATES
  /** By how much the account has passed a gate: so much of this share is not for new calls, or not for running ones. */
  private admissionExcess = 0n
  private runningExcess = 0n
  /** True when the customer's limits bind running calls too. */
  private stopsRunning = false
  /** Of running calls that use theirs bit by bit. */
  private readonly shrinkable = new Set<Hold>()
  /** Calls that wait for another to give something back, first come first. */
  private readonly waiting: (() => void)[] = []

  /** To be told when what {@link hearChange} left to the account's answer is to be answered after all. */
  private readonly onAnswerDue: () => void

  constructor(organizationId: string, onAnswerDue: () => void = () => {}) {
    this.organizationId = organizationId
    this.onAnswerDue = onAnswerDue
  }

  /** The rest of the grant, without asking the database. Negative after an overspend. */
  get spendableMicrocents(): bigint {
    return this.grantedMicrocents - this.postedMicrocents - this.unpostedMicrocents - this.heldMicrocents
  }

  /** The part of it that a new hold may take. */
  get admittableMicrocents(): bigint {
    return this.spendableMicrocents - this.admissionExcess
  }

  /** The part of it by which a running call may extend its hold. */
  get extendableMicrocents(): bigint {
    return this.spendableMicrocents - this.runningExcess
  }

  /**
   * Notes that all processes were asked to give something back, so that this one need not say so for now. Returns whether it is to ask its
   * account. While the account is being asked it is: {@link hasNothingToGive} is looked at again when the next question goes out.
   */
  hearReclaim(nowMs: number): boolean {
    this.reclaimedAtMs = nowMs
    return this.asks > 0 || !this.hasNothingToGive
  }

  /**
   * True when a renewal certainly would leave others no more than they have: nothing is posted that it could fold, nothing is idle, and no
   * hold could be shrunk (P5).
   */
  get hasNothingToGive(): boolean {
    const mayShrink = this.stopsRunning && this.shrinkable.size > 0
    return this.isCertain && this.postedMicrocents === 0n && this.spendableMicrocents <= 0n && !mayShrink
  }

  /**
   * The same where the account has changed: running calls may have to do with less. Returns false when it certainly has nothing of the
   * account, and nothing to fold, though calls may wait. While the account is being asked, whether it has anything is known when that has
   * answered: `onAnswerDue` is called then if it has.
   */
  hearChange(nowMs: number): boolean {
    this.reclaimedAtMs = nowMs
    this.allAskedAtMs = nowMs
    if (!this.hasNothing) return true
    this.hasToAnswer = this.asks > 0
    return this.asks === 0 && !this.isCertain
  }

  private get hasNothing(): boolean {
    const { grantedMicrocents, postedMicrocents, unpostedMicrocents, heldMicrocents } = this
    return grantedMicrocents === 0n && postedMicrocents === 0n && unpostedMicrocents === 0n && heldMicrocents === 0n
  }

  /** Wants of calls and of others that the account has not answered yet, those not asked yet too. */
  get openAsks(): number {
    return this.asks
  }

  beginAsk(): void {
    this.asks += 1
  }

  /** The account has answered so many of them, and {@link take} has taken that up; or it could not be asked. */
  endAsks(count: number): void {
    this.asks -= count
    if (this.asks > 0 || !this.hasToAnswer) return
    this.hasToAnswer = false
    if (!this.isCertain || !this.hasNothing) this.onAnswerDue()
  }

  /** An answer of the account does not come. */
  loseAnswer(): void {
    this.isCertain = false
    this.hasLostAnswer = true
  }

  get waitingCalls(): number {
    return this.waiting.length
  }

  /** True when no call uses it and no charge that costs something is on its way. */
  get isIdle(): boolean {
    return this.openUses === 0 && this.unpostedMicrocents === 0n && this.waiting.length === 0
  }

  /** Takes up what a renewal has brought. No batch of this process may have been posted since it was decided. */
  take(renewed: Renewed): void {
    this.isCertain = !this.hasLostAnswer
    this.hasLostAnswer = false
    this.grantedMicrocents = renewed.grantedMicrocents
    this.postedMicrocents = 0n
    this.account = renewed
    this.exhaustedLimit = renewed.exhaustedLimit
    this.dayStartMs = renewed.dayStartMs
    this.reachesNotice = renewed.reachesNotice
    this.stopsRunning = renewed.stopsRunning
    this.runningGates = renewed.stopsRunning ? GATES : RUNNING_GATES
    this.admissionExcess = exceededBy(renewed.headroom, GATES)
    this.runningExcess = exceededBy(renewed.headroom, this.runningGates)
  }

  /**
   * Shrinks every hold of running chat as far as its call can do with, where limits stop running calls and a gate is passed
   * (P5): a limit was lowered, the balance debited, or that enforcement set. Returns the micro-cents that are free by it.
   */
  shrinkHolds(): bigint {
    if (!this.stopsRunning || this.runningExcess <= 0n) return 0n
    let freed = 0n
    for (const hold of this.shrinkable) freed += hold.shrink()
    if (freed > 0n) this.wakeAll()
    return freed
  }

  /** A hold may be shrunk from now on, or no longer. */
  setShrinkable(hold: Hold, isShrinkable: boolean): void {
    if (isShrinkable) this.shrinkable.add(hold)
    else this.shrinkable.delete(hold)
  }

  /**
   * True once for each UTC day on which the share still has the grant of an earlier one: that was granted up to where somebody had to
   * be told on its own day, and would be spent on this one unseen. The caller gives it back.
   */
  beginsDay(nowMs: number): boolean {
    const day = Math.floor(nowMs / DAY_MS)
    if (this.grantedMicrocents <= 0n || nowMs < this.dayStartMs + DAY_MS || this.givenBackForDay === day) return false
    this.givenBackForDay = day
    return true
  }

  /** The grant of an earlier day could not be given back: {@link beginsDay} is true again. */
  forgetDay(): void {
    this.givenBackForDay = 0
  }

  /** Takes what is neither spent nor held out of the share, to be given back; the amount. */
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
  forgetGrant(): void {
    this.grantedMicrocents = 0n
    this.postedMicrocents = 0n
    this.isCertain = false
  }
}

/** A call that uses its hold bit by bit, and can do with less of it for a while. */
export interface HoldOwner {
  /** Returns the cost of the prompt, of the answer so far and of one step more, in micro-cents. */
  leastMicrocents(): bigint
  /** The hold was shrunk to that. */
  onShrunk(): void
}

/** Money held for one call. Ends exactly once: by {@link release} or by {@link spend}. */
export class Hold {
  private readonly share: Share
  /** True where the call meets no gate on money, however long it goes on: a plan covers it, or its model costs nothing. */
  readonly needsNoMoney: boolean
  private amount: bigint
  /** To what it may be shrunk while nobody has said more. */
  private readonly leastMicrocents: bigint
  private owner: HoldOwner | null = null
  private isShrinkable = false
  private ended = false
  private endCall: (() => void) | undefined

  /** Makes the hold of a call that needs no money. `endCall` is called once, as it ends. */
  static ofNothing(share: Share, endCall?: () => void): Hold {
    const hold = new Hold(share, 0n, 0n, true)
    hold.endCall = endCall
    return hold
  }

  /**
   * Takes `microcents` out of what the share can spend. The caller has made sure that it is there. Until an owner of the
   * hold knows better it may be shrunk to `leastMicrocents`; left out, it never is.
   */
  constructor(share: Share, microcents: bigint, leastMicrocents = microcents, needsNoMoney = false) {
    this.share = share
    this.needsNoMoney = needsNoMoney
    this.amount = microcents
    this.leastMicrocents = leastMicrocents
    share.heldMicrocents += microcents
    share.openUses += 1
    if (leastMicrocents < microcents) this.setShrinkable(true)
  }

  get microcents(): bigint {
    return this.amount
  }

  get isOpen(): boolean {
    return !this.ended
  }

  /** Takes more, when the share has it. False changes nothing: it has not, or the hold has ended. */
  tryExtend(toMicrocents: bigint): boolean {
    if (this.ended) return false
    if (this.needsNoMoney) return true
    const more = toMicrocents - this.amount
    if (more <= 0n) return true
    if (this.share.extendableMicrocents < more) return false
    this.share.heldMicrocents += more
    this.amount = toMicrocents
    return true
  }

  /** From now on `owner` says how far the hold may be shrunk. */
  follow(owner: HoldOwner): void {
    if (this.ended || this.needsNoMoney) return
    this.owner = owner
    this.setShrinkable(true)
  }

  /** The call is being charged: the hold may still be extended, and is not shrunk any more. */
  freeze(): void {
    this.setShrinkable(false)
  }

  private setShrinkable(isShrinkable: boolean): void {
    if (isShrinkable === this.isShrinkable) return
    this.isShrinkable = isShrinkable
    this.share.setShrinkable(this, isShrinkable)
  }

  /** Gives back what its call can do without for now; the micro-cents. */
  shrink(): bigint {
    const least = this.owner === null ? this.leastMicrocents : this.owner.leastMicrocents()
    const freed = this.amount - least
    if (freed <= 0n) return 0n
    this.share.heldMicrocents -= freed
    this.amount = least
    this.owner?.onShrunk()
    return freed
  }

  /** Gives everything back. Does nothing when the hold has ended. */
  release(): void {
    this.end(0n)
  }

  /**
   * Ends the hold in favour of a charge that is now on its way. Throws when it has ended, since a call is charged once, and
   * when the charge costs more than was held for it (C10).
   */
  spend(costMicrocents: bigint): void {
    if (this.ended) throw new Error('a hold was spent after it had ended')
    if (costMicrocents > this.amount) throw new Error('a charge costs more than was held for it')
    this.end(costMicrocents)
  }

  private end(costMicrocents: bigint): void {
    if (this.ended) return
    this.ended = true
    this.share.openUses -= 1
    this.endCall?.()
    this.setShrinkable(false)
    this.share.heldMicrocents -= this.amount
    this.share.unpostedMicrocents += costMicrocents
    this.share.wakeAll()
  }
}
