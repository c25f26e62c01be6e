/**
 * The one writer of a process: everything that its calls change about money goes through here, one transaction at a
 * time. It gathers the charges that finished while the last transaction ran and posts them together (group commit), and
 * refills allotments in between. Because batches and refills never overlap, what the database says about this process's
 * allotments is exact whenever a refill reads it.
 */

import type { Database, Rider, Transaction } from '../io/postgres/database.ts'
import type { Log } from '../kernel/log.ts'
import { type Clock, DAY_MS, SECOND_MS, sleep } from '../kernel/time.ts'
import { refillAllotments, type Want } from './accounts/refill.ts'
import type { Charge } from './charge.ts'
import type { PlanMeter } from './plan/meter.ts'
import { PlanReads } from './plan/reads.ts'
import { type Ask, RefillQueue } from './refillQueue.ts'
import { buryCharge, ensureChargePartition, postCharges } from './store.ts'
import type { Wallet } from './wallet.ts'

/** Larger batches gain nothing (measured: 160k charges/s at 500) and lengthen the wait of the first in it. */
const BATCH_CHARGES = 500

/** Between tries of a batch whose outcome is unknown: short enough that a restarted database is met at once. */
const RETRY_FIRST_MS = 25
const RETRY_LONGEST_MS = SECOND_MS

const NO_RIDERS: readonly Rider[] = []
const NOBODY: ReadonlySet<Pending> = new Set()

/** What the writer needs to know about an error of the database. */
export interface WriterErrors {
  /** True when the database itself refused the statement's data, so that trying the same again can't help. */
  isRefusedData(error: unknown): boolean
}

export interface WriterDependencies {
  readonly database: Database
  readonly slot: number
  /** Names this process's taking of the slot, so that it is granted nothing once another has taken it. */
  readonly takenAtMs?: () => number
  readonly clock: Clock
  readonly log: Log
  readonly errors: WriterErrors
  /** Called for each batch that is posted, for metrics. */
  readonly onPosted?: (charges: number, milliseconds: number) => void
  readonly onBuried?: (charge: Charge) => void
  /** Below this balance an organization is told so, once; left out: nobody is. */
  readonly lowBalanceMicrocents?: bigint
  /** Called when a refill has seen something that somebody must be told. */
  readonly onNoticed?: () => void
}

interface Pending {
  readonly charge: Charge
  readonly wallet: Wallet
  /** What commits together with it. */
  readonly riders: readonly Rider[]
  readonly since: number
  /** A rider has said that it must not be posted. */
  isWithdrawn: boolean
  readonly resolve: (isPosted: boolean) => void
}

export class Writer {
  private readonly dependencies: WriterDependencies
  private readonly pending: Pending[] = []
  private readonly underWay: Pending[] = []
  private readonly refills = new RefillQueue()
  private readonly planReads = new PlanReads()
  /** Days since the epoch whose partition is known to be there. */
  private readonly partitions = new Set<number>()
  private running: Promise<void> | null = null
  private epoch = 0

  constructor(dependencies: WriterDependencies) {
    this.dependencies = dependencies
  }

  /** How many charges are not yet known to be posted. */
  get backlog(): number {
    return this.pending.length + this.underWay.length
  }

  /** How many organizations' accounts are to be asked next. */
  get waitingRefills(): number {
    return this.refills.size
  }

  /** For how long the oldest of them has waited, milliseconds. */
  get oldestAgeMs(): number {
    const oldest = this.underWay[0] ?? this.pending[0]
    return oldest ? this.dependencies.clock.monotonicMs() - oldest.since : 0
  }

  /**
   * Posts a charge; resolves when it is durably there (or buried in `dead_charges`). Never rejects and never gives up:
   * a commit that seems to have failed may have committed, so it is tried again by charge id until the outcome is known.
   * `riders` commit together with it. Where one of them says that the charge must not be, the others of its batch are
   * posted without it, its money is free again, and the answer is false.
   */
  post(charge: Charge, wallet: Wallet, riders: readonly Rider[] = NO_RIDERS): Promise<boolean> {
    return new Promise((resolve) => {
      const since = this.dependencies.clock.monotonicMs()
      this.pending.push({ charge, wallet, riders, since, isWithdrawn: false, resolve })
      this.run()
    })
  }

  /**
   * Asks the account for as much as makes `wantedMicrocents` spendable, beside what others want at the same time, and
   * brings the wallet up to date. Resolves whether or not anything was granted; rejects when the database can't be asked
   * now. `ask.take` runs in the very step in which the wallet changes, before any other call can take what came; those
   * of running calls first, then in the order of asking.
   */
  refill(wallet: Wallet, wantedMicrocents: bigint, ask: Ask = { kind: 'launch' }): Promise<void> {
    wallet.hasAsked = true
    const done = this.refills.add(wallet, wantedMicrocents, ask)
    this.run()
    return done
  }

  /**
   * Reads an organization's plan and its meter between two batches, so that what this process has posted is in it, and what
   * it posts from then on is not. Rejects when the database can't be asked now.
   */
  readPlan(wallet: Wallet, meter: PlanMeter): Promise<void> {
    const done = this.planReads.add(wallet, meter)
    this.run()
    return done
  }

  /** What refills under way bring back counts no more: the slot was lost, and others may have been given the same. */
  forgetRefills(): void {
    this.epoch += 1
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
    while (this.pending.length > 0 || this.refills.size > 0 || this.planReads.size > 0) {
      if (this.planReads.size > 0) await this.planReads.run(this.dependencies.database, this.dependencies.clock)
      if (this.refills.size > 0) await this.refillAll()
      if (this.pending.length > 0) await this.postBatch()
    }
    // In the same step as the last look: what comes a microtask later must find the writer at rest and start it.
    this.running = null
  }

  private async refillAll(): Promise<void> {
    const asked = this.refills.next()
    const wants = new Map<string, Want>()
    for (const [organizationId, refill] of asked) wants.set(organizationId, refill.want())
    const { epoch } = this
    try {
      const { database, slot, takenAtMs, clock, lowBalanceMicrocents, onNoticed } = this.dependencies
      const citing = takenAtMs?.() ?? null
      const refilled = await refillAllotments(database, slot, wants, clock.now(), lowBalanceMicrocents, citing)
      if (refilled.some(({ noticed }) => noticed)) onNoticed?.()
      // Every organization has an account: an empty answer says that the slot has been taken anew since.
      if (citing !== null && refilled.length === 0) throw new Error('the slot was taken anew; nothing was refilled')
      if (epoch !== this.epoch) throw new Error('the slot was lost while its allotments were refilled')
      for (const each of refilled) asked.get(each.organizationId)?.wallet.take(each)
      for (const refill of asked.values()) refill.finish()
    } catch (error) {
      for (const refill of asked.values()) refill.fail(error)
    }
  }

  private async postBatch(): Promise<void> {
    this.underWay.push(...this.pending.splice(0, BATCH_CHARGES))
    const startedAt = this.dependencies.clock.monotonicMs()
    const batch = [...this.underWay]
    await this.postUntilKnown(batch)
    this.underWay.length = 0
    this.dependencies.onPosted?.(batch.length, this.dependencies.clock.monotonicMs() - startedAt)
    for (const { resolve, isWithdrawn } of batch) resolve(!isWithdrawn)
  }

  private async postUntilKnown(batch: readonly Pending[]): Promise<void> {
    const { clock, errors, log } = this.dependencies
    for (let delayMs = RETRY_FIRST_MS; ; delayMs = Math.min(delayMs * 2, RETRY_LONGEST_MS)) {
      try {
        await this.postOnce(batch)
        return
      } catch (error) {
        if (errors.isRefusedData(error)) return this.halve(batch, error)
        // A partition that was there may have been dropped since: retention takes whole days.
        this.partitions.clear()
        log.warn({ err: error, charges: batch.length }, 'charges not posted yet; trying again')
        this.refills.failAll(error)
        this.planReads.failAll(error)
        await sleep(clock, delayMs)
      }
    }
  }

  private async postOnce(batch: readonly Pending[]): Promise<void> {
    const { database, slot, clock } = this.dependencies
    await this.ensurePartitions(batch.map(({ charge }) => charge))
    // Nearly every batch has no riders, and is one statement; a transaction would cost two round trips more.
    const isAlone = batch.every(({ riders }) => riders.length === 0)
    const withdrawn = isAlone ? NOBODY : await database.transaction((tx) => this.postWithRiders(tx, batch))
    if (isAlone) await postCharges(database, slot, chargesOf(batch), clock.now())
    for (const each of batch) {
      const { charge, wallet } = each
      if (withdrawn.has(each)) {
        each.isWithdrawn = true
        this.dependencies.log.warn({ chargeId: charge.chargeId }, 'a charge was withdrawn: its attempt was taken over')
        freeMoney(each)
        continue
      }
      wallet.unpostedMicrocents -= charge.costMicrocents
      wallet.postedMicrocents += charge.costMicrocents
      if (charge.metered !== undefined) wallet.plan?.end(charge.metered, true)
    }
  }

  /** Posts those of a batch whose riders let them; the others. What a rider says stays true, so that a repeat decides the same. */
  private async postWithRiders(tx: Transaction, batch: readonly Pending[]): Promise<ReadonlySet<Pending>> {
    const { slot, clock } = this.dependencies
    const withdrawn = new Set<Pending>()
    for (const each of batch) {
      for (const ride of each.riders) if (!(await ride(tx))) withdrawn.add(each)
    }
    const posted = batch.filter((each) => !withdrawn.has(each))
    if (posted.length > 0) await postCharges(tx, slot, chargesOf(posted), clock.now())
    return withdrawn
  }

  private async ensurePartitions(charges: readonly Charge[]): Promise<void> {
    for (const { admittedAtMs } of charges) {
      const day = Math.floor(admittedAtMs / DAY_MS)
      if (this.partitions.has(day)) continue
      await ensureChargePartition(this.dependencies.database, admittedAtMs)
      this.partitions.add(day)
    }
  }

  /** Finds the rows that the database refuses, posts the others, and keeps the refused ones for an operator. */
  private async halve(batch: readonly Pending[], error: unknown): Promise<void> {
    const first = batch[0]
    if (batch.length > 1) {
      const middle = batch.length >> 1
      await this.postUntilKnown(batch.slice(0, middle))
      await this.postUntilKnown(batch.slice(middle))
    } else if (first && first.riders.length > 0) {
      // A charge is worth more than what rides with it.
      this.dependencies.log.error({ err: error, chargeId: first.charge.chargeId }, 'a charge is posted by itself')
      await this.postUntilKnown([{ ...first, riders: NO_RIDERS }])
    } else if (first) {
      await this.bury(first, error)
    }
  }

  private async bury(pending: Pending, error: unknown): Promise<void> {
    const { charge } = pending
    const { database, clock, log, onBuried } = this.dependencies
    const reason = error instanceof Error ? error.message : String(error)
    log.error({ err: error, chargeId: charge.chargeId }, 'the database refuses a charge; it is kept in dead_charges')
    for (let delayMs = RETRY_FIRST_MS; ; delayMs = Math.min(delayMs * 2, RETRY_LONGEST_MS)) {
      try {
        await buryCharge(database, charge, reason, clock.now())
        break
      } catch (failure) {
        log.warn({ err: failure }, 'a refused charge is not kept yet; trying again')
        await sleep(clock, delayMs)
      }
    }
    freeMoney(pending)
    onBuried?.(charge)
  }
}

function chargesOf(batch: readonly Pending[]): Charge[] {
  return batch.map(({ charge }) => charge)
}

/** Of a charge that will never be posted. */
function freeMoney({ charge, wallet }: Pending): void {
  wallet.unpostedMicrocents -= charge.costMicrocents
  if (charge.metered !== undefined) wallet.plan?.end(charge.metered, false)
  wallet.wakeAll()
}
