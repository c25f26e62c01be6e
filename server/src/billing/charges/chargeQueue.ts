/** The charges of a process that are not known to be posted: which of them were sent, and which their calls gave up. */

import type { Participant } from '../../infra/postgres/database.ts'
import type { Clock } from '../../lib/time.ts'
import { Watchdog } from '../../lib/watchdog.ts'
import type { Share } from '../admission/share.ts'
import type { Charge } from './charge.ts'

/** The outcome of a charge that its call learns, at the charge's deadline at the latest. */
export type Posted =
  /** The charge is durably there, or kept in `dead_charges`. */
  | { readonly kind: 'posted' }
  /** A participant said that another process has taken the request over. The charge is not posted, and its hold is released. */
  | { readonly kind: 'superseded' }
  /** The deadline passed while it was known that the charge is not posted. It is never posted, and its hold is released. */
  | { readonly kind: 'withdrawn' }
  /**
   * The deadline passed, and the charge stands: the writer goes on until the database has it. `isPosted` resolves then; false
   * means superseded. It never resolves when the process ends first.
   */
  | { readonly kind: 'late'; readonly isPosted: Promise<boolean> }

/**
 * Asks, once, at the deadline, if it may take a charge back from the customer. True: nothing of the answer has left
 * and the client still waits, so that a refusal leaves in place of the answer.
 */
export type MayGiveUp = () => boolean

/**
 * - `waiting`: no statement that posts it is under way, and none has posted it
 * - `sent`: such a statement was begun; whatever becomes of it, the charge may be posted
 * - `posted`, `superseded`, `withdrawn`: final
 */
type State = 'waiting' | 'sent' | 'posted' | 'superseded' | 'withdrawn'

/** Told of a charge whose fate is final, in the same step. `isPosted` is false where it is not posted for good. */
export type OnEnded = (charge: Charge, isPosted: boolean) => void

/** One charge on its way. It moves the money of its share once, when its state becomes final. */
export class QueuedCharge {
  readonly charge: Charge
  readonly share: Share
  /** On the monotonic clock. */
  readonly sinceMs: number
  /** They commit together with the charge. */
  participants: readonly Participant[]
  /** True when its deadline has passed. Its call was answered then. */
  isLate = false
  private state: State = 'waiting'
  /** A statement that posts it was sent, and nobody knows whether it was carried out. */
  private isInDoubt = false
  private isCredited = false
  private isGivenUp = false
  private later: ((isPosted: boolean) => void) | null = null
  private readonly mayGiveUp: MayGiveUp
  private readonly onEnded: OnEnded
  private readonly resolve: (posted: Posted) => void

  constructor(
    {
      charge,
      share,
      participants,
      mayGiveUp,
      onEnded,
    }: Pick<QueuedCharge, 'charge' | 'share' | 'participants'> & { mayGiveUp: MayGiveUp; onEnded: OnEnded },
    sinceMs: number,
    resolve: (posted: Posted) => void,
  ) {
    this.charge = charge
    this.share = share
    this.participants = participants
    this.mayGiveUp = mayGiveUp
    this.onEnded = onEnded
    this.sinceMs = sinceMs
    this.resolve = resolve
  }

  get isWithdrawn(): boolean {
    return this.state === 'withdrawn'
  }

  /**
   * Returns whether the customer pays for an answer that nobody got and that is kept nowhere (E14). The credit
   * commits together with the charge; where the charge is found posted, it comes after.
   */
  get owesCredit(): boolean {
    if (!this.isGivenUp || this.isWithdrawn || this.isCredited) return false
    return this.participants.length === 0 && this.charge.costMicrocents > 0n
  }

  /** Notes that a statement which posts it is about to be sent. False: it was withdrawn, and must not be. */
  send(): boolean {
    if (this.state === 'waiting') this.state = 'sent'
    return this.state !== 'withdrawn'
  }

  /** Notes that the statement which was to post it was not carried out. Unless an earlier one may have been, it is as if never sent. */
  takeBack(): void {
    if (this.state === 'sent' && !this.isInDoubt) this.state = 'waiting'
  }

  /** Notes that the statement which was to post it may have been carried out. */
  doubt(): void {
    if (this.state === 'sent') this.isInDoubt = true
  }

  /** The charge is durably there. May be called again. */
  markPosted(): void {
    if (this.state === 'posted') return
    this.state = 'posted'
    const { charge, share } = this
    share.unpostedMicrocents -= charge.costMicrocents
    share.postedMicrocents += charge.costMicrocents
    this.onEnded(charge, true)
  }

  markSuperseded(): void {
    this.state = 'superseded'
    this.freeMoney()
  }

  /** The database refuses the row. The customer pays nothing; the call goes on as if the charge were posted. */
  markDead(): void {
    this.state = 'posted'
    this.freeMoney()
  }

  markCredited(): void {
    this.isCredited = true
  }

  /** Tells the call, which has waited until the deadline. */
  expire(): void {
    this.isLate = true
    if (this.state === 'posted' || this.state === 'superseded') {
      this.resolve({ kind: this.state })
      return
    }
    this.isGivenUp = this.mayGiveUp()
    if (this.isGivenUp && this.state === 'waiting') {
      this.state = 'withdrawn'
      this.freeMoney()
      this.resolve({ kind: 'withdrawn' })
      return
    }
    const { promise: isPosted, resolve } = Promise.withResolvers<boolean>()
    this.later = resolve
    this.resolve({ kind: 'late', isPosted })
  }

  /** Tells the call, or whoever still asks, how it ended. */
  finish(): void {
    if (this.later !== null) this.later(this.state === 'posted')
    else if (this.state === 'posted' || this.state === 'superseded') this.resolve({ kind: this.state })
  }

  private freeMoney(): void {
    const { charge, share } = this
    share.unpostedMicrocents -= charge.costMicrocents
    this.onEnded(charge, false)
    share.wakeAll()
  }
}

export interface ChargeQueueOptions {
  readonly onEnded: OnEnded
  readonly clock: Clock
  /** How long a call waits for its charge, milliseconds. */
  readonly deadlineMs: number
  /** Told when charges are late: how many of them were withdrawn, and how many stand. */
  readonly onLate: (late: { readonly withdrawn: number; readonly standing: number }) => void
}

/** Charges in the order in which they came: first the batch that is being posted, then the line behind it. */
export class ChargeQueue {
  private readonly clock: Clock
  private readonly deadlineMs: number
  private readonly onLate: ChargeQueueOptions['onLate']
  private readonly onEnded: OnEnded
  private readonly watchdog: Watchdog
  private batch: readonly QueuedCharge[] = []
  private line: QueuedCharge[] = []
  /** True when the watchdog waits for the deadline of the first charge whose call still waits. */
  private isWatching = false

  constructor({ clock, deadlineMs, onLate, onEnded }: ChargeQueueOptions) {
    this.clock = clock
    this.deadlineMs = deadlineMs
    this.onLate = onLate
    this.onEnded = onEnded
    this.watchdog = new Watchdog(clock, () => this.expireLate())
  }

  /** Returns how many charges are not known to be posted. */
  get size(): number {
    return this.batch.length + this.line.length
  }

  /** Returns how many of them wait behind the batch that is being posted. */
  get waiting(): number {
    return this.line.length
  }

  /** For how long the oldest of them has waited, milliseconds. */
  get oldestAgeMs(): number {
    const oldest = this.batch[0] ?? this.line[0]
    return oldest ? this.clock.monotonicMs() - oldest.sinceMs : 0
  }

  add(charge: Charge, share: Share, participants: readonly Participant[], mayGiveUp: MayGiveUp): Promise<Posted> {
    return new Promise((resolve) => {
      const sinceMs = this.clock.monotonicMs()
      const { onEnded } = this
      this.line.push(new QueuedCharge({ charge, share, participants, mayGiveUp, onEnded }, sinceMs, resolve))
      if (!this.isWatching) this.watch()
    })
  }

  /** Takes at most so many from the front of the line; they are the batch until {@link finish}. */
  next(most: number): readonly QueuedCharge[] {
    this.batch = this.line.splice(0, most)
    return this.batch
  }

  /** The state of every charge of the batch is final. */
  finish(): void {
    const { batch } = this
    this.batch = []
    this.watch()
    for (const each of batch) each.finish()
  }

  private watch(): void {
    const first = this.batch.find(isInTime) ?? this.line.find(isInTime)
    this.isWatching = first !== undefined
    if (first === undefined) this.watchdog.stop()
    else this.watchdog.due(first.sinceMs + this.deadlineMs)
  }

  private expireLate(): void {
    const beforeMs = this.clock.monotonicMs() - this.deadlineMs
    const late = [...this.batch, ...this.line].filter((each) => isInTime(each) && each.sinceMs <= beforeMs)
    for (const each of late) each.expire()
    this.batch = this.batch.filter(isLeft)
    this.line = this.line.filter(isLeft)
    const withdrawn = late.filter((each) => each.isWithdrawn).length
    if (late.length > 0) this.onLate({ withdrawn, standing: late.length - withdrawn })
    this.watch()
  }
}

const isInTime = ({ isLate }: QueuedCharge) => !isLate
const isLeft = ({ isWithdrawn }: QueuedCharge) => !isWithdrawn
