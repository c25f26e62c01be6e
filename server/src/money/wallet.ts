/**
 * This process's view of one organization's allotment: what it may spend without asking the database. Pure state; the
 * writer and the verbs of this domain change it. All amounts are micro-cents.
 */

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
  /** Calls that wait for another to give something back, first come first. */
  private readonly waiting: (() => void)[] = []

  constructor(organizationId: string) {
    this.organizationId = organizationId
  }

  /** What a new hold may take now, without asking the database. Negative after an overspend. */
  get spendableMicrocents(): bigint {
    return this.grantedMicrocents - this.postedMicrocents - this.unpostedMicrocents - this.heldMicrocents
  }

  get waitingCalls(): number {
    return this.waiting.length
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
  private amount: bigint
  private ended = false

  /** Takes `microcents` out of what the wallet can spend. The caller has made sure that it is there. */
  constructor(wallet: Wallet, microcents: bigint) {
    this.wallet = wallet
    this.amount = microcents
    wallet.heldMicrocents += microcents
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
    const more = toMicrocents - this.amount
    if (more <= 0n) return true
    if (this.wallet.spendableMicrocents < more) return false
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
    this.wallet.heldMicrocents -= this.amount
    this.wallet.unpostedMicrocents += costMicrocents
    this.wallet.wakeAll()
  }
}
