import type { TokenRate } from '../catalog/price.ts'
import { type Extension, extendHold, type Money } from '../money/admit.ts'
import type { Outcome } from '../money/charge.ts'
import type { Gate } from '../money/gates.ts'
import type { Hold, Wallet } from '../money/wallet.ts'
import {
  type ChatAnswer,
  type ChatEvent,
  type ChatEvents,
  type FinishReason,
  type TokenUsage,
  UpstreamFailure,
} from '../upstream/spec.ts'
import { costAtMost, STEP_TOKENS } from './request.ts'

/** Tokenizers make about one token of this much English prose; used to watch a hold, never to charge. */
const UNITS_PER_TOKEN = 4

/** Other scripts make more tokens of a character: 1 for a Chinese one (2 bytes of UTF-8 more), 0.6 for a Cyrillic one. */
const UNITS_PER_EXTRA_BYTE = 1.5

type TextEvent = Extract<ChatEvent, { readonly text: string }>

/** What an answer may come to, and the money set aside for it. */
export interface Budget {
  readonly money: Money
  readonly wallet: Wallet
  readonly hold: Hold
  /** The rate in force when the call was admitted. */
  readonly price: TokenRate
  readonly promptTokens: number
  readonly outputTokens: number
  /** True when the upstream was told `outputTokens`, so that a hold of the whole worst case needs no watching. */
  readonly outputIsLimited: boolean
  /** Output tokens that the model may spend without sending anything of them. */
  readonly hiddenTokens: number
  /** For judging what an upstream claims. */
  readonly contextTokens: number
}

/**
 * An answer as it is generated: takes the upstream's events, keeps the hold ahead of the tokens, and remembers what there
 * is to charge for. One reader; ended by the upstream, by the money, or by {@link stop}.
 */
export class Generation {
  private readonly events: ChatEvents
  private readonly budget: Budget
  private readonly signal: AbortSignal
  private textPieces: string[] = []
  private reasoningPieces: string[] = []
  private eventsSoFar = 0
  private unitsSoFar = 0
  private owed: { readonly event: TextEvent; readonly covered: Extension | Promise<Extension> } | null = null
  private tokensCovered: number
  private finish: FinishReason | null = null
  private reported: TokenUsage | null = null
  private saidMoreSince = false
  private ending: Outcome | null = null
  private broken: UpstreamFailure | null = null
  private short: Gate | null = null

  constructor(events: ChatAnswer, budget: Budget, signal: AbortSignal) {
    this.events = events[Symbol.asyncIterator]()
    this.budget = budget
    this.signal = signal
    this.tokensCovered = this.coveredBy(budget.hold.microcents)
  }

  /** How it ended; null while it goes on. */
  get outcome(): Outcome | null {
    return this.ending
  }

  /** Why it broke off, when the outcome is `interrupted`: the upstream did, or no money could be asked for. */
  get failure(): UpstreamFailure | null {
    return this.broken
  }

  /** The gate that cut it, when the outcome is `cut`. */
  get shortGate(): Gate | null {
    return this.short
  }

  get finishReason(): FinishReason {
    return this.ending === 'cut' ? 'length' : (this.finish ?? 'stop')
  }

  get text(): string {
    return this.textPieces.join('')
  }

  get reasoning(): string {
    return this.reasoningPieces.join('')
  }

  /** Whether the model has produced anything, shown or not. */
  get hasTokens(): boolean {
    return this.textPieces.length > 0 || this.reasoningPieces.length > 0
  }

  /** What the upstream reported, where that is possible for this model; null otherwise. */
  get usage(): TokenUsage | null {
    const { reported } = this
    if (reported === null) return null
    const { contextTokens } = this.budget
    const possible = reported.promptTokens <= contextTokens && reported.completionTokens <= contextTokens
    return possible ? this.limited(reported) : null
  }

  /** An upstream that went past the limit it was told did so at its own expense: nobody asked for those tokens. */
  limited(usage: TokenUsage): TokenUsage {
    const { outputTokens, outputIsLimited } = this.budget
    if (!outputIsLimited || usage.completionTokens <= outputTokens) return usage
    return { ...usage, completionTokens: outputTokens }
  }

  /** Whether more was generated after the last usage was reported: then it is no total. */
  get isUsageBehind(): boolean {
    return this.saidMoreSince
  }

  /**
   * The next piece of text to forward, paid for; null when the answer has ended, for whatever reason. Text that arrived
   * together is one piece.
   */
  async next(): Promise<string | null> {
    let piece = this.owed === null ? '' : await this.payOwed()
    while (this.ending === null) {
      let event = this.events.ready?.()
      if (event === undefined) {
        if (piece !== '') return piece
        event = await this.takeNext()
        if (event === undefined) return null
      }
      if (event.kind === 'finish') this.finish = event.reason
      else if (event.kind === 'usage') this.takeUsage(event.usage)
      else {
        const covered = this.cover(event.text)
        if (covered === 'extended') piece += this.keep(event)
        else {
          this.owed = { event, covered }
          // What is paid for goes out before anyone waits for more money.
          if (piece !== '') return piece
          piece = await this.payOwed()
        }
      }
    }
    return piece === '' ? null : piece
  }

  private takeUsage(usage: TokenUsage): void {
    this.reported = usage
    this.saidMoreSince = false
  }

  /** Ends it because the client is gone. */
  async stop(): Promise<void> {
    if (this.ending === null) await this.end('cancelled')
  }

  private async end(outcome: Outcome): Promise<void> {
    this.ending = outcome
    // Cancels the upstream's work; how that goes no longer matters to anyone.
    await this.events.return?.().catch(() => {})
  }

  private breakOff(error: unknown): void {
    this.ending = this.signal.aborted ? 'cancelled' : 'interrupted'
    this.broken = error instanceof UpstreamFailure ? error : new UpstreamFailure('faulty', String(error))
  }

  /** Waits for the money for an event that was set aside; its text, or nothing when it was cut. */
  private async payOwed(): Promise<string> {
    const { owed } = this
    if (owed === null || this.ending !== null) return ''
    this.owed = null
    const covered = await owed.covered
    if (covered === 'extended') return this.keep(owed.event)
    if (covered === 'unavailable') this.broken = new UpstreamFailure('unavailable', 'no money could be asked for')
    else this.short = covered
    await this.end(covered === 'unavailable' ? 'interrupted' : 'cut')
    return ''
  }

  /** Remembers what was generated; gives the part of it that is forwarded. */
  private keep(event: TextEvent): string {
    this.saidMoreSince = true
    if (event.kind === 'text') {
      this.textPieces.push(event.text)
      return event.text
    }
    this.reasoningPieces.push(event.text)
    return ''
  }

  /** The next event, waited for; undefined when the answer has ended. */
  private async takeNext(): Promise<ChatEvent | undefined> {
    try {
      const step = await this.events.next()
      if (!step.done) return step.value
      this.ending = this.signal.aborted ? 'cancelled' : 'completed'
    } catch (error) {
      this.breakOff(error)
    }
    return undefined
  }

  /** Makes sure that the hold covers one more event's text before it is forwarded. */
  private cover(text: string): Extension | Promise<Extension> {
    this.eventsSoFar += 1
    this.unitsSoFar += text.length + UNITS_PER_EXTRA_BYTE * (Buffer.byteLength(text) - text.length)
    const tokens = Math.max(this.eventsSoFar, Math.ceil(this.unitsSoFar / UNITS_PER_TOKEN))
    const { money, hold, wallet, price, promptTokens, outputTokens, outputIsLimited, hiddenTokens } = this.budget
    // A cap that is used up ends running calls, whatever they hold (P5).
    if (wallet.stopped !== null && !hold.isCovered) return wallet.stopped
    if (tokens <= this.tokensCovered) return 'extended'
    const reach = tokens + STEP_TOKENS + hiddenTokens
    const upTo = outputIsLimited ? Math.min(reach, outputTokens) : reach
    const microcents = costAtMost(price, promptTokens, upTo)
    const extended = extendHold(money, hold, wallet, microcents)
    const done = (extension: Extension) => {
      if (extension === 'extended') this.tokensCovered = this.coveredBy(microcents)
      return extension
    }
    return typeof extended === 'string' ? done(extended) : extended.then(done)
  }

  private coveredBy(microcents: bigint): number {
    const { price, promptTokens, outputTokens, outputIsLimited, hiddenTokens } = this.budget
    const whole = costAtMost(price, promptTokens, outputTokens)
    if (microcents >= whole && outputIsLimited) return Number.POSITIVE_INFINITY
    if (price.outputMicrocents === 0n) return Number.POSITIVE_INFINITY
    const forOutput = microcents - costAtMost(price, promptTokens, 0)
    return forOutput <= 0n ? 0 : Number((forOutput * 1_000_000n) / price.outputMicrocents) - hiddenTokens
  }
}
