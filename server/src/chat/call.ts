/** One chat call from its admission on: its upstream, its charge, its reply. Nobody else branches on how it goes. */

import type { Served } from '../catalog/model.ts'
import { rateAt, type TokenRate } from '../catalog/price.ts'
import type { Refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import type { CallTrace } from '../kernel/telemetry.ts'
import { SECOND_MS } from '../kernel/time.ts'
import type { Admitted } from '../money/admit.ts'
import { settle } from '../money/settle.ts'
import type { PaidCaller } from '../paid/caller.ts'
import { CLIENT_GONE, explainFailure, SUPERSEDED } from '../paid/refusals.ts'
import { routeOf, targetName } from '../paid/routeOf.ts'
import { endUncharged } from '../paid/trace.ts'
import { openChat } from '../routing/open.ts'
import type { ChatCall, TokenUsage } from '../upstream/spec.ts'
import type { ChatDependencies } from './dependencies.ts'
import { Generation } from './generation.ts'
import { cutFromTheStart, cutMidCall } from './refusals.ts'
import type { ChatReply, EndPart, Heading, Settled, StreamedPart, WholeReply } from './reply.ts'
import type { ChatRequest } from './request.ts'
import { countUsage } from './tokenCounter.ts'

/** What is kept is a whole answer, or the last part of a streamed one. */
export type ChatCaller = PaidCaller<WholeReply | EndPart>

/** The most tokens that a call can come to. */
interface Bounds {
  readonly promptTokens: number
  readonly outputTokens: number
}

/** A call under way: admitted, and its upstream answering. */
interface Running {
  readonly generation: Generation
  readonly target: string
  /** The first piece of text, already taken from the generation; null when it ended without any. */
  readonly first: string | null
}

/** First `start`, then one of the replies. */
export class Call {
  readonly heading: Heading
  private readonly dependencies: ChatDependencies
  private readonly keep: ChatCaller['keep']
  private readonly served: Served
  private readonly request: ChatRequest
  private readonly admitted: Admitted
  /** Frozen at admission, however long the call goes on. */
  private readonly rate: TokenRate
  private readonly bounds: Bounds
  private readonly signal: AbortSignal
  private readonly trace: CallTrace | null
  private readonly admittedMonotonicMs: number
  /** Another process has taken the request over, and charges it. */
  private isSuperseded = false

  constructor(
    dependencies: ChatDependencies,
    { keep }: ChatCaller,
    served: Served,
    request: ChatRequest,
    admitted: Admitted,
    bounds: Bounds,
    signal: AbortSignal,
    trace: CallTrace | null,
  ) {
    this.dependencies = dependencies
    this.keep = keep
    this.served = served
    this.request = request
    this.admitted = admitted
    this.bounds = bounds
    this.signal = signal
    this.trace = trace
    const { chargeId, admittedAtMs } = admitted.admission
    this.admittedMonotonicMs = dependencies.clock.monotonicMs()
    this.rate = rateAt(served.tier.price, admittedAtMs)
    this.heading = {
      id: `chatcmpl-${chargeId.replaceAll('-', '')}`,
      createdSeconds: Math.floor(admittedAtMs / SECOND_MS),
      model: served.model.id,
    }
  }

  /** Reaches the upstream and waits for the first text. On a refusal the hold is released. Never rejects. */
  async start(): Promise<Result<Running>> {
    const { dependencies, served, request, admitted, bounds, signal, trace } = this
    const { money } = dependencies
    try {
      const route = routeOf(dependencies, served, signal, trace)
      const opened = await openChat(dependencies.targets(served), this.toCall(), route)
      const wallet = money.wallet(admitted.admission.organizationId)
      const budget = {
        ...bounds,
        money,
        wallet,
        hold: admitted.hold,
        price: this.rate,
        outputIsLimited: request.maxTokens !== null,
        hiddenTokens: served.model.hiddenReasoningTokens,
        contextTokens: served.model.contextTokens,
      }
      const generation = new Generation(opened.events, budget, signal)
      const first = await generation.next()
      if (first === null && generation.outcome === 'interrupted' && !generation.hasTokens) {
        throw generation.failure
      }
      return ok({ generation, target: targetName(opened.target), first })
    } catch (error) {
      admitted.hold.release()
      return this.failed(this.explain(error))
    }
  }

  /** The whole answer at once, after its charge is durable. */
  async replyWhole(started: Result<Running>): Promise<Result<ChatReply>> {
    if (!started.ok) return started
    const { generation } = started.value
    while ((await generation.next()) !== null);
    if (generation.outcome === 'interrupted') {
      // Nothing was delivered, so nothing is charged (C5).
      this.admitted.hold.release()
      return this.failed(this.explain(generation.failure))
    }
    const { text, finishReason } = generation
    const toReply = (settled: Settled): WholeReply => ({
      ...this.heading,
      kind: 'whole',
      text,
      finishReason,
      ...settled,
    })
    const settled = await this.settle(started.value, toReply)
    if (settled === null) {
      if (this.isSuperseded) return this.failed(SUPERSEDED)
      return this.failed(generation.shortGate === null ? CLIENT_GONE : cutFromTheStart(generation.shortGate))
    }
    this.endTrace(null, generation, settled)
    return ok(toReply(settled))
  }

  /** The answer in pieces; its last part leaves after the charge is durable (C3). */
  async *replyStreamed(starting: Promise<Result<Running>>): AsyncGenerator<StreamedPart, void> {
    const started = await starting
    if (!started.ok) {
      yield { kind: 'error', refusal: started.refusal, costMicrocents: null }
      return
    }
    const { generation, first } = started.value
    let settled: Settled | null = null
    let error: string | null = 'cancelled'
    try {
      for (let text = first; text !== null; text = await generation.next()) yield { kind: 'text', text }
      const { finishReason } = generation
      const toEnd = (all: Settled): EndPart => ({ kind: 'end', finishReason, ...all })
      const isWhole = generation.shortGate === null && generation.outcome !== 'interrupted'
      settled = await this.settle(started.value, isWhole ? toEnd : undefined)
      error = this.isSuperseded ? SUPERSEDED.code : generation.outcome
      const costMicrocents = settled?.costMicrocents ?? null
      if (this.isSuperseded) {
        yield { kind: 'error', refusal: SUPERSEDED, costMicrocents }
      } else if (generation.shortGate !== null) {
        yield { kind: 'error', refusal: cutMidCall(generation.shortGate), costMicrocents }
      } else if (generation.outcome === 'interrupted') {
        yield { kind: 'error', refusal: this.explain(generation.failure), costMicrocents }
      } else if (settled !== null) yield toEnd(settled)
    } finally {
      await generation.stop()
      if (this.admitted.hold.isOpen) settled = await this.settle(started.value)
      this.endTrace(error === 'completed' ? null : error, generation, settled)
    }
  }

  /**
   * Charges what there is to charge; null when no token was generated, or another has taken the request over, and so
   * nothing is charged. `toAnswer` makes the whole answer, or its last part, to be kept; left out, there is none.
   */
  private async settle(
    { generation, target }: Running,
    toAnswer?: (settled: Settled) => WholeReply | EndPart,
  ): Promise<Settled | null> {
    const { dependencies, admitted, rate, served, keep } = this
    const outcome = generation.outcome ?? 'cancelled'
    if (outcome !== 'completed' && !generation.hasTokens) {
      admitted.hold.release()
      return null
    }
    const reported = generation.usage
    const estimated = reported === null || generation.isUsageBehind
    let usage: TokenUsage
    let costMicrocents: bigint | null
    const shown = () => ({
      ...usage,
      cachedTokens: rate.cachedInputMicrocents === null ? null : usage.cachedPromptTokens,
    })
    const ridersFor =
      keep === undefined || toAnswer === undefined
        ? undefined
        : (cost: bigint) => keep(toAnswer({ usage: shown(), costMicrocents: cost }))
    try {
      usage = generation.limited(estimated ? await this.count(generation) : reported)
      const delivered = { usage, estimated, target, outcome }
      costMicrocents = await settle(dependencies.money, admitted, rate, delivered, ridersFor)
    } catch (error) {
      // A bug in counting or pricing must not keep the customer's money for ever.
      admitted.hold.release()
      throw error
    }
    if (costMicrocents === null) {
      this.isSuperseded = true
      return null
    }
    const { metrics, clock } = dependencies
    metrics?.tokens(served.model.id, usage.promptTokens, usage.completionTokens, usage.cachedPromptTokens)
    metrics?.charged(served.model.id, outcome, costMicrocents, clock.monotonicMs() - this.admittedMonotonicMs)
    return { usage: shown(), costMicrocents }
  }

  private count({ text, reasoning, usage }: Generation): Promise<TokenUsage> {
    return countUsage(this.dependencies.tokenCounter, this.request.messages, [text, reasoning], usage)
  }

  private failed(refusal: Refusal): Result<never> {
    endUncharged(this.trace, this.signal.aborted ? 'cancelled' : refusal.code)
    return refused(refusal)
  }

  private endTrace(error: string | null, { finishReason }: Generation, settled: Settled | null): void {
    const { usage = null, costMicrocents = null } = settled ?? {}
    this.trace?.end({ error, finishReason, usage, costMicrocents })
  }

  private explain(error: unknown): Refusal {
    const { chargeId } = this.admitted.admission
    return explainFailure(this.dependencies.log, { chargeId, name: 'a chat call' }, error, this.signal)
  }

  private toCall(): Omit<ChatCall, 'model'> {
    const { messages, maxTokens, temperature } = this.request
    const { outputTokens } = this.bounds
    return { messages, maxTokens: maxTokens === null ? null : outputTokens, outputTokens, temperature }
  }
}
