/** One way in which a customer with a valid key tries to hurt the others, as the abuse harness drives it. */

/** The target of an attack: one gateway process and an organization of the attacker's own. */
export interface Target {
  readonly url: string
  /** API keys of the attacker's organization, with every scope and of an admin; its balance is what the harness says. */
  readonly keys: readonly string[]
}

export interface Attack {
  readonly name: string
  /** One sentence: what it sends, how often, and what it cost before there was a bound. */
  readonly about: string
  /** Seconds that it needs to come to its point, where it has to prepare something. */
  readonly leastSeconds?: number
  /**
   * Goes on until `signal` is aborted, and releases its connections then. Gives how many requests were answered, by status;
   * 0 counts connections that ended without an answer.
   */
  run(target: Target, signal: AbortSignal): Promise<ReadonlyMap<number, number>>
}
