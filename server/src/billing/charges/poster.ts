import type { Database } from '../../infra/postgres/database.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import { type Clock, DAY_MS, SECOND_MS } from '../../lib/time.ts'
import type { Charge, SlotCharges } from './charge.ts'
import type { QueuedCharge } from './chargeQueue.ts'
import { KeptCharges, type Lost } from './keptCharges.ts'
import { ensureChargePartition } from './partitions/prepare.ts'
import { postCharges } from './post.ts'
import { creditUndelivered } from './refund.ts'
import { ServedModels } from './servedModels.ts'

/** Until the database is asked once more what it has. */
const AGAIN_MS = SECOND_MS

export interface PosterDependencies {
  readonly database: Database
  /** This process's slot: another one where it was lost meanwhile. */
  readonly slot: () => number
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  /** Stores the prices that charges may cite, for a database that may have forgotten them. Left out: nothing is stored. */
  readonly storePrices?: () => Promise<void>
  /** The database has lost charges that it had confirmed (E21). Called in the step in which that is seen. */
  readonly onLost?: (lost: Lost) => void
}

/**
 * One try of a batch of charges: sees that all is there that they need, posts them, and sees by the answer whether the database has lost
 * earlier ones. Its turns come between two batches, as those of any `WriterWork`.
 */
export class Poster {
  private readonly dependencies: PosterDependencies
  /** Days since the epoch whose partition is known to be there. */
  private readonly partitions = new Set<number>()
  private readonly servedModels = new ServedModels()
  private readonly kept: KeptCharges
  /** Another database may answer than the one that has stored the prices. */
  private mayLackPrices = false
  private isToCompare = false
  private cancelAgain = () => {}
  private isClosed = false
  private wake = () => {}

  constructor(dependencies: PosterDependencies) {
    this.dependencies = dependencies
    this.kept = new KeptCharges(dependencies.clock)
  }

  /** Forgets what the database has: a partition may have been dropped, and another database may answer from now on. */
  forget(): void {
    this.partitions.clear()
    this.servedModels.forget()
    this.mayLackPrices = true
  }

  /** Another database may answer from now on: has it asked soon whether it has what was confirmed. */
  checkKept(): void {
    this.forget()
    if (this.isClosed) return
    this.isToCompare = true
    this.wake()
  }

  /** The database is asked no more what it has. Charges are posted as before. */
  close(): void {
    this.isClosed = true
    this.isToCompare = false
    this.cancelAgain()
  }

  attach(wake: () => void): void {
    this.wake = wake
  }

  get size(): number {
    return this.isToCompare ? 1 : 0
  }

  async run(): Promise<void> {
    this.isToCompare = false
    try {
      this.hear(await this.kept.compare(this.dependencies.database))
    } catch (error) {
      if (this.isClosed) return
      const { log, clock } = this.dependencies
      log.warn({ err: error }, 'nobody knows yet whether the database has kept all charges; it is asked again')
      this.cancelAgain()
      this.cancelAgain = clock.after(AGAIN_MS, () => this.checkKept())
    }
  }

  failAll(): void {}

  /** Posts a batch. Rejects where that can't be known; try again then. */
  async post(queued: readonly QueuedCharge[]): Promise<void> {
    const { database, slot, clock } = this.dependencies
    if (this.mayLackPrices) await this.storePrices()
    await this.ensurePartitions(chargesOf(queued))
    await this.servedModels.ensure(database, chargesOf(queued))
    // Nearly every batch has no participants, and is one statement; a transaction would cost two round trips more.
    if (queued.some(({ participants, owesCredit }) => participants.length > 0 || owesCredit))
      return this.postTogether(queued)
    const batch = queued.filter((each) => each.send())
    if (batch.length === 0) return
    const number = slot()
    const counted = await postCharges(database, number, chargesOf(batch), clock.now(), this.servedModels)
    for (const each of batch) each.markPosted()
    this.take(number, counted, batch)
  }

  /**
   * Posts those charges of a batch whose participants let them, and credits the money that their calls gave up, in
   * one transaction. A participant's decision stays true, so a repeat decides the same.
   */
  private async postTogether(queued: readonly QueuedCharge[]): Promise<void> {
    const { database, slot, clock, random, log } = this.dependencies
    const number = slot()
    const { batch, superseded, credited, counted } = await database.transaction(async (tx) => {
      const sent = queued.filter((each) => each.send())
      const superseded = new Set<QueuedCharge>()
      for (const each of sent) {
        for (const participant of each.participants) if (!(await participant(tx))) superseded.add(each)
      }
      const batch = sent.filter((each) => !superseded.has(each))
      const credited = batch.filter(({ owesCredit }) => owesCredit)
      // Accounts are locked before unfolded spend, as renewals do it.
      await creditUndelivered(tx, random, chargesOf(credited), clock.now())
      const counted =
        batch.length === 0 ? null : await postCharges(tx, number, chargesOf(batch), clock.now(), this.servedModels)
      return { batch, superseded, credited, counted }
    })
    for (const each of batch) each.markPosted()
    for (const each of credited) each.markCredited()
    for (const each of superseded) {
      log.warn({ chargeId: each.charge.chargeId }, 'a charge is not posted: its attempt was taken over')
      each.markSuperseded()
    }
    if (counted !== null) this.take(number, counted, batch)
  }

  private async storePrices(): Promise<void> {
    // Not after them: yet another database may answer meanwhile.
    this.mayLackPrices = false
    try {
      await this.dependencies.storePrices?.()
    } catch (error) {
      this.mayLackPrices = true
      throw error
    }
  }

  private take(slot: number, counted: SlotCharges, batch: readonly QueuedCharge[]): void {
    const newest = batch.at(-1)?.charge
    if (newest !== undefined) this.hear(this.kept.take(slot, counted, newest))
  }

  private hear(lost: Lost | null): void {
    if (lost === null) return
    this.forget()
    this.dependencies.onLost?.(lost)
  }

  private async ensurePartitions(charges: readonly Charge[]): Promise<void> {
    for (const { admittedAtMs } of charges) {
      const day = Math.floor(admittedAtMs / DAY_MS)
      if (this.partitions.has(day)) continue
      await ensureChargePartition(this.dependencies.database, admittedAtMs)
      this.partitions.add(day)
    }
  }
}

function chargesOf(batch: readonly QueuedCharge[]): Charge[] {
  return batch.map(({ charge }) => charge)
}
