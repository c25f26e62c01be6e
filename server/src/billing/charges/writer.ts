/**
 * The one writer of a process. Every change that its calls make to money goes through here, one transaction at a time. It
 * gathers the charges that finished while the last transaction ran, and posts them together (group commit). Between two
 * batches it renews shares of accounts and runs the work that must not overlap with a batch, such as reads of plan meters.
 */

import { NO_PARTICIPANTS, type Participant } from '../../infra/postgres/database.ts'
import { doubledMs } from '../../lib/backoff.ts'
import { SECOND_MS, sleep } from '../../lib/time.ts'
import { type OnDayMended, renewShares } from '../admission/renewal/renew.ts'
import { type Ask, RenewalQueue } from '../admission/renewalQueue.ts'
import type { Share } from '../admission/share.ts'
import type { ShareRenewer } from '../admission/shareRenewer.ts'
import type { Renewed, Want } from '../admission/wants.ts'
import type { Charge, HeldCharge } from './charge.ts'
import {
  ChargeQueue,
  type ChargeQueueOptions,
  type MayGiveUp,
  type OnEnded,
  type Posted,
  type QueuedCharge,
} from './chargeQueue.ts'
import { Poster, type PosterDependencies } from './poster.ts'
import { insertDeadCharge } from './store.ts'

/** Larger batches gain nothing (measured: 160k charges/s at 500) and lengthen the wait of the first in it. */
const BATCH_CHARGES = 500

/** Between tries of a batch whose outcome is unknown: short enough that a restarted database is met at once. */
const RETRY_FIRST_MS = 25
const RETRY_LONGEST_MS = SECOND_MS

const NEVER: MayGiveUp = () => false

/** Statements that must not overlap with a batch of charges, such as reads that are exact only between two batches. */
export interface WriterWork {
  /** How much of it waits. */
  readonly size: number
  /** Called once. The work calls `wake` whenever something of it waits. */
  attach(wake: () => void): void
  /** Does what waits, or some of it. Never rejects. */
  run(): Promise<void>
  /** The database can't be asked now: rejects what waits. */
  failAll(error: unknown): void
}

/** Tells the writer which errors of the database are final. */
export interface WriterErrors {
  /** True when the database itself refused the statement's data, so that trying the same again can't help. */
  isRefusedData(error: unknown): boolean
  /** True when it is known that nothing of the statement, or of its transaction, was carried out. */
  isNothingDone(error: unknown): boolean
}

export interface WriterDependencies extends PosterDependencies {
  /** Names this process's taking of the slot, so that it is granted nothing once another has taken it. */
  readonly takenAtMs?: () => number
  readonly errors: WriterErrors
  /** Run between two batches, in this order, before the renewals. */
  readonly betweenBatches?: readonly WriterWork[]
  /** How long a call waits for its charge to be posted (E14). */
  readonly chargeDeadlineMs: number
  /** Called for each batch that is posted, for metrics. */
  readonly onPosted?: (charges: number, milliseconds: number) => void
  readonly onDead?: (charge: Charge) => void
  /** Called in the step in which it becomes final whether a charge is posted. */
  readonly onEnded?: OnEnded
  /** Called when charges were not posted in time, for metrics. */
  readonly onLate?: ChargeQueueOptions['onLate']
  /** Below this balance an organization is told so, once; left out: nobody is. */
  readonly lowBalanceMicrocents?: bigint
  /** Called when a renewal has seen something that somebody must be told. */
  readonly onNoticed?: () => void
  readonly onDayMended?: OnDayMended
}

export class Writer implements ShareRenewer {
  private readonly dependencies: WriterDependencies
  private readonly queue: ChargeQueue
  private readonly renewals = new RenewalQueue()
  private readonly betweenBatches: readonly WriterWork[]
  private readonly poster: Poster
  private running: Promise<void> | null = null
  private epoch = 0

  constructor(dependencies: WriterDependencies) {
    this.dependencies = dependencies
    const { clock, log, chargeDeadlineMs: deadlineMs, onLate, onEnded } = dependencies
    this.queue = new ChargeQueue({
      clock,
      deadlineMs,
      onEnded: onEnded ?? (() => {}),
      onLate(late) {
        log.error({ ...late }, 'charges were not posted in time; their calls get 503')
        onLate?.(late)
      },
    })
    this.poster = new Poster(dependencies)
    this.betweenBatches = [this.poster, ...(dependencies.betweenBatches ?? [])]
    for (const work of this.betweenBatches) work.attach(() => this.run())
  }

  /** Returns how many charges are not yet known to be posted. */
  get backlog(): number {
    return this.queue.size
  }

  /** Returns how many organizations' accounts are to be asked next. */
  get waitingRenewals(): number {
    return this.renewals.size
  }

  /** Returns how long the oldest unposted charge has waited, milliseconds. */
  get oldestAgeMs(): number {
    return this.queue.oldestAgeMs
  }

  /**
   * Posts a charge; resolves when it is durably there (or kept in `dead_charges`), or at the charge's deadline. Never
   * rejects and never gives a charge up that may be posted: a commit that seems to have failed may have committed, so it is tried
   * again by charge id until the outcome is known.
   * `participants` commit together with it. Where one of them says that the charge must not be, the others of its batch are
   * posted without it, and its money is free again.
   * At the deadline a charge that was not sent, or whose statement the database says it did not carry out, is withdrawn where
   * `mayGiveUp` says true. One that may be posted stands; without
   * participants it is credited, once it is known to be posted, and where `mayGiveUp` said true. Left out: it stands as it is.
   * Throws for a charge that costs more than was held for it (C10).
   */
  post(
    charge: HeldCharge,
    share: Share,
    participants: readonly Participant[] = NO_PARTICIPANTS,
    mayGiveUp: MayGiveUp = NEVER,
  ): Promise<Posted> {
    if (charge.costMicrocents > charge.heldMicrocents) throw new Error('a charge costs more than was held for it')
    const posted = this.queue.add(charge, share, participants, mayGiveUp)
    this.run()
    return posted
  }

  renew(share: Share, wantedMicrocents: bigint, ask: Ask = { kind: 'admission' }): Promise<void> {
    share.hasAsked = true
    const done = this.renewals.add(share, wantedMicrocents, ask)
    this.run()
    return done
  }

  forgetRenewals(): void {
    this.epoch += 1
  }

  /** Another database may answer from now on: looks soon whether it has the charges that were confirmed (E21). */
  checkKept(): void {
    this.poster.checkKept()
  }

  /** Ends what the process does by itself. Charges are posted as before. */
  close(): void {
    this.poster.close()
  }

  /** Resolves when nothing is left to post. */
  async drain(): Promise<void> {
    while (this.running) await this.running
  }

  private run(): void {
    this.running ??= this.work()
  }

  private async work(): Promise<void> {
    // Lets everything that finishes in this turn of the event loop join the first batch.
    await Promise.resolve()
    while (this.queue.waiting > 0 || this.renewals.size > 0 || this.betweenBatches.some(({ size }) => size > 0)) {
      for (const work of this.betweenBatches) if (work.size > 0) await work.run()
      if (this.renewals.size > 0) await this.renewAll()
      if (this.queue.waiting > 0) await this.postBatch()
    }
    // In the same step as the last look: what comes a microtask later must find the writer at rest and start it.
    this.running = null
  }

  private async renewAll(): Promise<void> {
    const asked = this.renewals.next()
    if (asked.size === 0) return
    const wants = new Map<string, Want>()
    for (const [organizationId, renewal] of asked) {
      wants.set(organizationId, renewal.want())
      renewal.share.isCertain = false
    }
    const { epoch } = this
    try {
      const { database, slot, takenAtMs, clock, lowBalanceMicrocents, onNoticed, onDayMended } = this.dependencies
      const citing = takenAtMs?.() ?? null
      const nowMs = clock.now()
      const renewed = await renewShares(database, slot(), wants, nowMs, lowBalanceMicrocents, citing, onDayMended)
      if (renewed.some(({ noticed }) => noticed)) onNoticed?.()
      // Every organization has an account, so an empty answer means that another process has taken the slot.
      if (citing !== null && renewed.length === 0) throw new Error('the slot was taken anew; nothing was renewed')
      if (epoch !== this.epoch) throw new Error('the slot was lost while its shares were renewed')
      for (const each of renewed) this.takeUp(asked.get(each.organizationId)?.share, each)
      for (const renewal of asked.values()) renewal.finish()
    } catch (error) {
      for (const renewal of asked.values()) renewal.fail(error)
    }
  }

  private takeUp(share: Share | undefined, renewed: Renewed): void {
    if (share === undefined) return
    share.take(renewed)
    // Others may have what calls here can do without. Should that fail, whoever needs it reclaims it.
    if (share.shrinkHolds() > 0n) this.renew(share, 0n, { kind: 'give_back' }).catch(() => {})
  }

  private async postBatch(): Promise<void> {
    const startedAt = this.dependencies.clock.monotonicMs()
    const batch = this.queue.next(BATCH_CHARGES)
    await this.postUntilKnown(batch)
    this.dependencies.onPosted?.(batch.length, this.dependencies.clock.monotonicMs() - startedAt)
    this.queue.finish()
  }

  private async postUntilKnown(whole: readonly QueuedCharge[]): Promise<void> {
    const { clock, errors, log } = this.dependencies
    let batch = whole
    for (let failures = 0; ; failures += 1) {
      try {
        await this.poster.post(batch)
        // A call may have given its charge up while that was committed; the others don't wait for its credit.
        const owing = batch.filter(({ owesCredit }) => owesCredit)
        if (owing.length === 0) return
        for (const each of batch) if (!owing.includes(each)) each.finish()
        batch = owing
      } catch (error) {
        if (errors.isNothingDone(error)) for (const each of batch) each.takeBack()
        else for (const each of batch) each.doubt()
        const standing = batch.filter(({ isWithdrawn }) => !isWithdrawn)
        if (errors.isRefusedData(error)) {
          if (standing.length === batch.length) return this.halve(batch, error)
          // The refused row may be one that was withdrawn meanwhile: the others are tried without it.
          if (standing.length === 0) return
          batch = standing
          continue
        }
        this.poster.forget()
        log.warn({ err: error, charges: batch.length }, 'charges not posted yet; trying again')
        this.failAsks(error)
        if (standing.length === 0) return
        batch = standing
        await sleep(clock, doubledMs(RETRY_FIRST_MS, RETRY_LONGEST_MS, failures))
      }
    }
  }

  private failAsks(error: unknown): void {
    this.renewals.failAll(error)
    for (const work of this.betweenBatches) work.failAll(error)
  }

  /** Finds the rows that the database refuses, posts the others, and keeps the refused ones for an operator. */
  private async halve(batch: readonly QueuedCharge[], error: unknown): Promise<void> {
    const first = batch[0]
    if (batch.length > 1) {
      const middle = batch.length >> 1
      await this.postUntilKnown(batch.slice(0, middle))
      await this.postUntilKnown(batch.slice(middle))
    } else if (first && first.participants.length > 0) {
      // A charge is worth more than what joins it.
      this.dependencies.log.error({ err: error, chargeId: first.charge.chargeId }, 'a charge is posted by itself')
      first.participants = NO_PARTICIPANTS
      await this.postUntilKnown([first])
    } else if (first) {
      await this.toDeadCharge(first, error)
    }
  }

  private async toDeadCharge(queued: QueuedCharge, error: unknown): Promise<void> {
    // From here on it stands: its deadline does not withdraw it while its row is written.
    if (!queued.send()) return
    const { charge } = queued
    const { database, clock, log, onDead } = this.dependencies
    const reason = error instanceof Error ? error.message : String(error)
    log.error({ err: error, chargeId: charge.chargeId }, 'the database refuses a charge; it is kept in dead_charges')
    for (let failures = 0; ; failures += 1) {
      try {
        await insertDeadCharge(database, charge, reason, clock.now())
        break
      } catch (failure) {
        log.warn({ err: failure }, 'a refused charge is not kept yet; trying again')
        this.failAsks(failure)
        await sleep(clock, doubledMs(RETRY_FIRST_MS, RETRY_LONGEST_MS, failures))
      }
    }
    queued.markDead()
    onDead?.(charge)
  }
}
