import { largest, smallest } from '../../lib/money.ts'
import type { Share, Want } from './share.ts'

/** Accounts locked by one statement: few enough that others never wait long for theirs. */
const ORGANIZATIONS_AT_ONCE = 500

/** The purpose of a renewal. */
export interface Ask {
  /** For a new call, for a running one, or only to give back what is idle here. */
  readonly kind: 'admission' | 'extension' | 'reclaim'
  /** Runs as soon as the share is up to date. Must not throw. */
  readonly take?: () => void
}

interface Asked {
  readonly ask: Ask
  readonly resolve: () => void
  readonly reject: (reason: unknown) => void
}

/** All that calls of one organization want of its account, for one renewal. */
class Renewal {
  readonly share: Share
  private readonly asked: Asked[] = []
  private admission = 0n
  private least: bigint | null = null
  private extension: bigint | null = null
  private isReclaim = false

  constructor(share: Share) {
    this.share = share
  }

  add(microcents: bigint, ask: Ask): Promise<void> {
    if (ask.kind === 'reclaim') this.isReclaim = true
    else if (ask.kind === 'extension') this.extension = (this.extension ?? 0n) + microcents
    else {
      this.admission += microcents
      this.least = this.least === null ? microcents : smallest(this.least, microcents)
    }
    this.share.openAsks += 1
    return new Promise((resolve, reject) => this.asked.push({ ask, resolve, reject }))
  }

  /**
   * Returns the amounts that this share lacks. It uses its idle money first, or gives that back at once when it is
   * reclaimed: if the renewal seems to fail, it may have been carried out all the same, and others may have the
   * money.
   */
  want(): Want {
    const giveBack = this.isReclaim ? this.share.takeIdle() : null
    const here = this.share.spendableMicrocents
    const extension = this.extension === null ? 0n : largest(this.extension - here, 0n)
    const beside = (admission: bigint) => largest(admission + (this.extension ?? 0n) - here, 0n) - extension
    const isAdmission = this.least !== null
    return {
      admission: isAdmission ? beside(this.admission) : 0n,
      least: beside(this.least ?? 0n),
      extension,
      giveBack,
    }
  }

  /** The share is up to date: runs every `take`, then resolves every promise. */
  finish(): void {
    const [running, others] = [this.asked.filter(isRunning), this.asked.filter((asked) => !isRunning(asked))]
    for (const { ask } of [...running, ...others]) ask.take?.()
    this.share.openAsks -= this.asked.length
    for (const { resolve } of this.asked) resolve()
  }

  fail(error: unknown): void {
    this.share.openAsks -= this.asked.length
    for (const { reject } of this.asked) reject(error)
  }
}

const isRunning = ({ ask }: Asked) => ask.kind === 'extension'

/** The renewals that are asked for while one is under way: of each organization all at once. */
export class RenewalQueue {
  private renewals = new Map<string, Renewal>()

  get size(): number {
    return this.renewals.size
  }

  add(share: Share, microcents: bigint, ask: Ask): Promise<void> {
    const renewal = this.renewals.get(share.organizationId) ?? new Renewal(share)
    this.renewals.set(share.organizationId, renewal)
    return renewal.add(microcents, ask)
  }

  /** The next to be asked for, and no longer in the queue. */
  next(): ReadonlyMap<string, Renewal> {
    if (this.renewals.size <= ORGANIZATIONS_AT_ONCE) {
      const all = this.renewals
      this.renewals = new Map()
      return all
    }
    const some = new Map([...this.renewals].slice(0, ORGANIZATIONS_AT_ONCE))
    for (const organizationId of some.keys()) this.renewals.delete(organizationId)
    return some
  }

  failAll(error: unknown): void {
    const renewals = this.renewals
    this.renewals = new Map()
    for (const renewal of renewals.values()) renewal.fail(error)
  }
}
