import { type AdmissionContext, type Extension, extendHold } from '../../billing/admission/admit.ts'
import type { Gate } from '../../billing/admission/gates.ts'
import type { Hold, HoldOwner, Share } from '../../billing/admission/share.ts'
import type { CallOutcome } from '../../billing/charges/charge.ts'
import type { TokenRate } from '../../catalog/price.ts'
import type { Arriving } from '../../lib/arriving.ts'
import type { CallSignal } from '../../lib/callSignal.ts'
import { GrowingText } from '../../lib/growingText.ts'
import type { TokenUsage } from '../../lib/tokenUsage.ts'
import {
  type ChatAnswer,
  type ChatEvent,
  type ChatEvents,
  type FinishReason,
  ProviderFailure,
} from '../../providers/dialect/spec.ts'
import { costAtMost, STEP_TOKENS } from './request.ts'
import { UNITS_PER_TOKEN, unitsOf } from './units.ts'

/**
 * An answer is past its limit of tokens for certain when it has more than 128 bytes a token; or more events than tokens and
 * more than 8 bytes a token, since some servers split a token over several events.
 */
const BYTES_PER_TOKEN_EVER = 128
const BYTES_PER_TOKEN_ON_AVERAGE = 8

type TextEvent = Extract<ChatEvent, { readonly text: string }>

/** The most tokens that an answer may have, their price, and the money held for them. */
export interface Budget {
  readonly money: AdmissionContext
  readonly share: Share
  readonly hold: Hold
  /** The rate in force when the call was admitted. */
  readonly price: TokenRate
  readonly promptTokens: number
  readonly outputTokens: number
  /** True when the provider was told `outputTokens`, so that a hold of the whole worst case needs no watching. */
  readonly outputIsLimited: boolean
  /** Output tokens that the model may spend without sending anything of them. */
  readonly hiddenTokens: number
  /** For judging what a provider claims. */
  readonly contextTokens: number
}

/**
 * An answer as it is generated: takes the provider's events, keeps the hold ahead of the tokens, and remembers what there
 * is to charge for. One reader; ended by the provider, by the money, or by {@link stop}.
 */
export class Generation implements HoldOwner, Arriving<string> {
  private readonly events: ChatEvents
  private readonly budget: Budget
  private readonly signal: CallSignal
  private readonly shownText = new GrowingText()
  private readonly reasoningText = new GrowingText()
  private eventsSoFar = 0
  private bytesSoFar = 0
  private unitsSoFar = 0
  private reportedTokens = 0
  private owed: { readonly event: TextEvent; readonly extending: Extension | Promise<Extension> } | null = null
  private tokensHeld: number
  private finish: FinishReason | null = null
  private reported: TokenUsage | null = null
  private saidMoreSince = false
  private ending: CallOutcome | null = null
  private broken: ProviderFailure | null = null
  private insufficient: Gate | null = null

  constructor(events: ChatAnswer, budget: Budget, signal: CallSignal) {
    this.events = events[Symbol.asyncIterator]()
    this.budget = budget
    this.signal = signal
    this.tokensHeld = this.tokensFor(budget.hold.microcents)
    budget.hold.follow(this)
  }

  /** The cost of the prompt, of the tokens so far and of one step more, in micro-cents. */
  leastMicrocents(): bigint {
    const { price, promptTokens, outputTokens, outputIsLimited, hiddenTokens } = this.budget
    const reach = this.tokensSoFar + STEP_TOKENS + hiddenTokens
    return costAtMost(price, promptTokens, outputIsLimited ? Math.min(reach, outputTokens) : reach)
  }

  onShrunk(): void {
    this.tokensHeld = this.tokensFor(this.budget.hold.microcents)
  }

  /** Returns how it ended; null while it goes on. */
  get outcome(): CallOutcome | null {
    return this.ending
  }

  /** Why it broke off, when the outcome is `interrupted`: the provider did, or no money could be asked for. */
  get failure(): ProviderFailure | null {
    return this.broken
  }

  /** The gate that cut it, when the outcome is `cut`. */
  get insufficientGate(): Gate | null {
    return this.insufficient
  }

  get finishReason(): FinishReason {
    return this.ending === 'cut' ? 'length' : (this.finish ?? 'stop')
  }

  get text(): string {
    return this.shownText.toString()
  }

  get reasoning(): string {
    return this.reasoningText.toString()
  }

  /** UTF-8 bytes of text and reasoning that have come. */
  get bytes(): number {
    return this.bytesSoFar
  }

  /** Returns whether the model has produced anything, shown or not. */
  get hasTokens(): boolean {
    return !this.shownText.isEmpty || !this.reasoningText.isEmpty
  }

  /**
   * The usage that the provider reported; null when it reported none, or more tokens than the model's context holds.
   */
  get usage(): TokenUsage | null {
    const { reported } = this
    if (reported === null) return null
    const { contextTokens } = this.budget
    return reported.promptTokens <= contextTokens && reported.completionTokens <= contextTokens ? reported : null
  }

  /** Returns whether more was generated after the last usage was reported: then it is no total. */
  get isUsageBehind(): boolean {
    return this.saidMoreSince
  }

  /** The next piece of text to forward, if it is here and paid for. Text that arrived together is one piece. */
  ready(): string | undefined {
    let piece = ''
    while (this.ending === null && this.owed === null) {
      const event = this.events.ready?.()
      if (event === undefined) break
      piece += this.take(event)
    }
    return piece === '' ? undefined : piece
  }

  /** As `Arriving` says. */
  whenReady(callback: () => void): boolean {
    if (this.ending !== null || this.owed !== null) return false
    return this.events.whenReady?.(callback) === true
  }

  /** The next piece of text to forward, paid for; null when the answer has ended, for whatever reason. */
  async next(): Promise<string | null> {
    for (;;) {
      // Text that is paid for goes out before anyone waits for more money.
      const piece = this.owed === null ? this.ready() : await this.payOwed()
      if (piece !== undefined && piece !== '') return piece
      if (this.ending !== null) return null
      if (this.owed !== null) continue
      const event = await this.takeNext()
      if (event === undefined) return null
      const text = this.take(event)
      if (text !== '') return text + (this.ready() ?? '')
    }
  }

  /** Takes an event; gives its text where that is paid for. One that is not is owed. */
  private take(event: ChatEvent): string {
    if (event.kind === 'finish') this.finish = event.reason
    else if (event.kind === 'usage') this.takeUsage(event.usage)
    else {
      const extending = this.ensureHeld(event.text)
      if (extending === 'extended' && !this.isPastLimit) return this.keep(event)
      this.owed = { event, extending }
    }
    return ''
  }

  private takeUsage(usage: TokenUsage): void {
    this.reported = usage
    this.saidMoreSince = false
    this.reportedTokens = Math.min(usage.completionTokens, this.tokenLimit)
  }

  /** The most tokens that the answer may have. */
  private get tokenLimit(): number {
    const { outputTokens, outputIsLimited, contextTokens } = this.budget
    return outputIsLimited ? outputTokens : contextTokens
  }

  /**
   * Returns whether the provider has sent more tokens than it was told to, or than the context has: nobody would pay
   * for them.
   */
  private get isPastLimit(): boolean {
    const { tokenLimit, bytesSoFar } = this
    if (bytesSoFar <= BYTES_PER_TOKEN_ON_AVERAGE * tokenLimit) return false
    return this.eventsSoFar > tokenLimit || bytesSoFar > BYTES_PER_TOKEN_EVER * tokenLimit
  }

  private endAtLimit(): Promise<void> {
    this.finish = 'length'
    // Text went on behind the last report.
    this.saidMoreSince = true
    return this.end('completed')
  }

  /** Ends it because the client is gone. */
  async stop(): Promise<void> {
    if (this.ending === null) await this.end('cancelled')
  }

  private async end(outcome: CallOutcome): Promise<void> {
    this.ending = outcome
    // Cancels the provider's work; how that goes no longer matters to anyone.
    await this.events.return?.().catch(() => {})
    if (outcome === 'cancelled') for (const event of (await this.events.left?.()) ?? []) this.takeLeft(event)
  }

  /** Remembers what the provider had sent when the client left: it is charged, and forwarded to nobody (C3). */
  private takeLeft(event: ChatEvent): void {
    if (event.kind === 'finish') this.finish = event.reason
    else if (event.kind === 'usage') this.takeUsage(event.usage)
    else {
      this.note(event.text)
      if (!this.isPastLimit) this.keep(event)
    }
  }

  private breakOff(error: unknown): void {
    this.ending = 'interrupted'
    this.broken = error instanceof ProviderFailure ? error : new ProviderFailure('faulty', String(error))
  }

  /** Waits for the money for an event that was put off; its text, or nothing when it was cut. */
  private async payOwed(): Promise<string> {
    const { owed } = this
    if (owed === null || this.ending !== null) return ''
    this.owed = null
    if (this.isPastLimit) {
      await this.endAtLimit()
      return ''
    }
    const extension = await owed.extending
    if (extension === 'extended') return this.keep(owed.event)
    // A client that left meanwhile: the call is cancelled and charged for its prompt at least (C3).
    if (this.signal.aborted) await this.end('cancelled')
    if (this.ending !== null) return ''
    if (extension === 'unavailable') {
      this.broken = new ProviderFailure('unavailable', 'no money could be asked for')
      await this.end('interrupted')
      return ''
    }
    this.insufficient = extension
    await this.end('cut')
    return this.keepHeld(owed.event)
  }

  /** Of an event of more than a step, keeps the beginning that the hold covers; gives the part of it that is forwarded. */
  private keepHeld(event: TextEvent): string {
    const { text } = event
    const units = unitsOf(text, Buffer.byteLength(text))
    const heldUnits = this.tokensHeld * UNITS_PER_TOKEN - (this.unitsSoFar - units)
    if (units <= STEP_TOKENS * UNITS_PER_TOKEN || heldUnits <= 0) return ''
    // Where the hold covers all of it, a limit that is used up has ended the answer.
    if (heldUnits >= units || this.eventsSoFar > this.tokensHeld) return ''
    const characters = Math.floor((text.length * heldUnits) / units)
    const isSplitPair = (text.codePointAt(characters - 1) ?? 0) > 0xffff
    const part = text.slice(0, isSplitPair ? characters - 1 : characters)
    return part === '' ? '' : this.keep({ ...event, text: part })
  }

  /** Remembers what was generated; gives the part of it that is forwarded. */
  private keep(event: TextEvent): string {
    this.saidMoreSince = true
    if (event.kind === 'text') {
      this.shownText.add(event.text)
      return event.text
    }
    this.reasoningText.add(event.text)
    return ''
  }

  /** The next event, waited for; undefined when the answer has ended. */
  private async takeNext(): Promise<ChatEvent | undefined> {
    try {
      const step = await this.events.next()
      if (!step.done) return step.value
      this.ending = this.signal.aborted ? 'cancelled' : 'completed'
    } catch (error) {
      if (!this.signal.aborted) this.breakOff(error)
      else await this.end('cancelled')
    }
    return undefined
  }

  /** Counts an event's text. */
  private note(text: string): void {
    const bytes = Buffer.byteLength(text)
    this.eventsSoFar += 1
    this.bytesSoFar += bytes
    this.unitsSoFar += unitsOf(text, bytes)
  }

  /** Makes sure that the hold covers one more event's text before it is forwarded. */
  private ensureHeld(text: string): Extension | Promise<Extension> {
    this.note(text)
    const { money, hold, share } = this.budget
    // A limit that is used up ends running calls, whatever they hold (P5).
    if (share.exhaustedLimit !== null && !hold.needsNoMoney) return share.exhaustedLimit
    if (this.tokensSoFar <= this.tokensHeld) return 'extended'
    const microcents = this.leastMicrocents()
    const extended = extendHold(money, hold, share, microcents)
    const done = (extension: Extension) => {
      if (extension === 'extended') this.tokensHeld = this.tokensFor(microcents)
      return extension
    }
    return typeof extended === 'string' ? done(extended) : extended.then(done)
  }

  /** The most tokens that the events so far can be, one that waits for its money among them. */
  private get tokensSoFar(): number {
    return Math.max(this.eventsSoFar, Math.ceil(this.unitsSoFar / UNITS_PER_TOKEN), this.reportedTokens)
  }

  private tokensFor(microcents: bigint): number {
    const { price, promptTokens, outputTokens, outputIsLimited, hiddenTokens } = this.budget
    const whole = costAtMost(price, promptTokens, outputTokens)
    if (microcents >= whole && outputIsLimited) return Number.POSITIVE_INFINITY
    if (price.outputMicrocents === 0n) return Number.POSITIVE_INFINITY
    const forOutput = microcents - costAtMost(price, promptTokens, 0)
    return forOutput <= 0n ? 0 : Number((forOutput * 1_000_000n) / price.outputMicrocents) - hiddenTokens
  }
}
