import { largest, smallest } from '../kernel/money.ts'
import type { Want } from './accounts/refill.ts'
import type { Wallet } from './wallet.ts'

/** Accounts locked by one statement: few enough that others never wait long for theirs. */
const ORGANIZATIONS_AT_ONCE = 500

/** What a refill is asked for. */
export interface Ask {
  /** For a new call, for a running one, or only to give back what is idle here. */
  readonly kind: 'launch' | 'extension' | 'recall'
  /** Runs as soon as the wallet is up to date. Must not throw. */
  readonly take?: () => void
}

interface Asked {
  readonly ask: Ask
  readonly resolve: () => void
  readonly reject: (reason: unknown) => void
}

/** All that calls of one organization want of its account, for one refill. */
class Refill {
  readonly wallet: Wallet
  private readonly asked: Asked[] = []
  private launch = 0n
  private least: bigint | null = null
  private extension: bigint | null = null
  private isRecall = false

  constructor(wallet: Wallet) {
    this.wallet = wallet
  }

  add(microcents: bigint, ask: Ask): Promise<void> {
    if (ask.kind === 'recall') this.isRecall = true
    else if (ask.kind === 'extension') this.extension = (this.extension ?? 0n) + microcents
    else {
      this.launch += microcents
      this.least = this.least === null ? microcents : smallest(this.least, microcents)
    }
    return new Promise((resolve, reject) => this.asked.push({ ask, resolve, reject }))
  }

  /**
   * What is missing here. What is idle here is used first, or leaves the wallet at once when it is recalled: should the
   * refill fail, it may have been carried out all the same, and others may have it.
   */
  want(): Want {
    const giveBack = this.isRecall ? this.wallet.takeIdle() : null
    const here = this.wallet.spendableMicrocents
    const extension = this.extension === null ? 0n : largest(this.extension - here, 0n)
    const beside = (launch: bigint) => largest(launch + (this.extension ?? 0n) - here, 0n) - extension
    const isLaunch = this.least !== null
    return {
      launch: isLaunch ? beside(this.launch) : 0n,
      least: beside(this.least ?? 0n),
      extension,
      giveBack,
    }
  }

  /** The wallet is up to date: each takes its share, and then they are told. */
  finish(): void {
    const [running, others] = [this.asked.filter(isRunning), this.asked.filter((asked) => !isRunning(asked))]
    for (const { ask } of [...running, ...others]) ask.take?.()
    for (const { resolve } of this.asked) resolve()
  }

  fail(error: unknown): void {
    for (const { reject } of this.asked) reject(error)
  }
}

const isRunning = ({ ask }: Asked) => ask.kind === 'extension'

/** What refills are asked for while one is under way: of each organization all at once. */
export class RefillQueue {
  private refills = new Map<string, Refill>()

  get size(): number {
    return this.refills.size
  }

  add(wallet: Wallet, microcents: bigint, ask: Ask): Promise<void> {
    const refill = this.refills.get(wallet.organizationId) ?? new Refill(wallet)
    this.refills.set(wallet.organizationId, refill)
    return refill.add(microcents, ask)
  }

  /** The next to be asked for, and no longer in the queue. */
  next(): ReadonlyMap<string, Refill> {
    if (this.refills.size <= ORGANIZATIONS_AT_ONCE) {
      const all = this.refills
      this.refills = new Map()
      return all
    }
    const some = new Map([...this.refills].slice(0, ORGANIZATIONS_AT_ONCE))
    for (const organizationId of some.keys()) this.refills.delete(organizationId)
    return some
  }

  failAll(error: unknown): void {
    const refills = this.refills
    this.refills = new Map()
    for (const refill of refills.values()) refill.fail(error)
  }
}
