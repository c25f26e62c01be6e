/** The story of one chat call: admit, call the upstream, settle, reply. Nobody else branches on how it goes. */

import type { Catalog, Served } from '../catalog/model.ts'
import { rateAt, type TokenRate } from '../catalog/price.ts'
import type { Rider } from '../io/postgres/database.ts'
import { type Refusal, refusal } from '../kernel/errors.ts'
import type { Log } from '../kernel/log.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import type { CallTrace, Telemetry } from '../kernel/telemetry.ts'
import { type Clock, SECOND_MS } from '../kernel/time.ts'
import { type Admitted, admit, type Money } from '../money/admit.ts'
import type { Outcome } from '../money/charge.ts'
import type { Gate } from '../money/gates.ts'
import { SUPERSEDED } from '../money/paid.ts'
import { settle } from '../money/settle.ts'
import type { ChatTarget } from '../routing/attempt.ts'
import type { Health } from '../routing/health.ts'
import { openChat } from '../routing/open.ts'
import { toRefusal } from '../routing/refusal.ts'
import type { RoutingMetrics } from '../routing/report.ts'
import { type ChatCall, type TokenUsage, UpstreamFailure } from '../upstream/spec.ts'
import { Generation } from './generation.ts'
import type { ChatReply, EndPart, Heading, Settled, StreamedPart, WholeReply } from './reply.ts'
import { type ChatRequest, outputTokensAtMost, promptTokensAtMost, worstCase } from './request.ts'
import { countPrompt, type TokenCounter } from './tokenCounter.ts'

/** A streamed call that has brought nothing for this long is answered all the same, so that proxies keep it open. */
const REPLY_LATEST_MS = 15 * SECOND_MS

const GATE_NAMES: Readonly<Record<Gate, string>> = {
  balance: 'The credit balance',
  daily: 'The room under the daily spending limit',
  monthly: 'The room under the monthly spending limit',
  newAccount: 'The room under the spending cap of new accounts',
}

const codeOf = (gate: Gate) => (gate === 'balance' ? 'insufficient_balance' : 'quota_exceeded')

function cutMidCall(gate: Gate): Refusal {
  return refusal(
    codeOf(gate),
    `${GATE_NAMES[gate]} ran out while the answer was generated. What was sent so far is charged.`,
  )
}

function cutFromTheStart(gate: Gate): Refusal {
  return refusal(
    codeOf(gate),
    `${GATE_NAMES[gate]} does not cover this answer. Nothing was charged. Ask for fewer tokens.`,
  )
}

export interface ChatMetrics extends RoutingMetrics {
  firstToken(milliseconds: number): void
  /** Of a call that was charged. */
  tokens(model: string, promptTokens: number, completionTokens: number, cachedTokens: number): void
  /** The charge of a call is durable, so long after its admission. */
  charged(model: string, outcome: Outcome, costMicrocents: bigint, elapsedMs: number): void
  /** A call could not be admitted from memory; so long it took until it was, or was refused. */
  waitedForMoney(elapsedMs: number): void
  refusedForMoney(code: string): void
}

export interface ChatDependencies {
  readonly clock: Clock
  readonly log: Log
  readonly money: Money
  readonly catalog: () => Catalog
  /** The clients of a tier's targets, in the order they are tried. */
  readonly targets: (served: Served) => readonly ChatTarget[]
  /** What is known of all targets. */
  readonly health: Health
  /** From 0 up to, and without, 1. */
  readonly random: () => number
  readonly tokenCounter: TokenCounter
  readonly metrics?: ChatMetrics
  /** Where calls are traced. */
  readonly telemetry?: Telemetry
}

export interface Caller {
  readonly organizationId: string
  readonly keyId: string
  /** The client's header of that name, where calls are traced. */
  readonly traceparent: string | null
  /** Prepares a whole answer, or the last part of one, to be kept with its charge; must not reject. Left out: it is not kept. */
  readonly keep?: (answer: WholeReply | EndPart) => Promise<readonly Rider[]>
}

/** A call under way: admitted, and its upstream answering. */
interface Running {
  readonly generation: Generation
  readonly target: string
  /** The first piece of text, already taken from the generation; null when it ended without any. */
  readonly first: string | null
}

/**
 * Answers a chat request. A refusal means that nothing was charged. `signal` says that the client is gone: the upstream
 * is cancelled and what was generated is charged. A streamed reply must be read to its end or returned: its last step
 * settles the call.
 */
export async function complete(
  dependencies: ChatDependencies,
  caller: Caller,
  served: Served,
  request: ChatRequest,
  signal: AbortSignal,
): Promise<Result<ChatReply>> {
  const { clock, metrics } = dependencies
  const trace = dependencies.telemetry?.begin(toTraced(caller, served, request)) ?? null
  const startedAtMs = clock.monotonicMs()
  const promptTokens = promptTokensAtMost(request.messages, served.model)
  const outputTokens = outputTokensAtMost(request, served.model)
  const passed = admit(
    dependencies.money,
    {
      organizationId: caller.organizationId,
      keyId: caller.keyId,
      model: served.model.id,
      tier: served.tier.name,
      priceHash: served.tier.priceHash,
    },
    (admittedAtMs) =>
      worstCase(
        rateAt(served.tier.price, admittedAtMs),
        promptTokens,
        outputTokens,
        served.model.hiddenReasoningTokens,
      ),
    served.model,
  )
  const admission = passed instanceof Promise ? await passed : passed
  if (passed instanceof Promise) metrics?.waitedForMoney(clock.monotonicMs() - startedAtMs)
  if (!admission.ok) {
    metrics?.refusedForMoney(admission.refusal.code)
    trace?.end({ ...NOTHING, error: admission.refusal.code })
    return admission
  }
  const admitted = admission.value
  const bounds = { promptTokens, outputTokens }
  const call = new Call(dependencies, served, request, admitted, bounds, signal, trace, caller.keep)
  const starting = call.start()
  if (!request.stream) return call.replyWhole(await starting)

  let cancelTimer = () => {}
  const latest = new Promise<null>((resolve) => {
    cancelTimer = clock.after(REPLY_LATEST_MS, () => resolve(null))
  })
  const started = await Promise.race([starting, latest])
  cancelTimer()
  if (started?.ok === false) return started
  if (started) {
    metrics?.firstToken(clock.monotonicMs() - startedAtMs)
    trace?.firstToken()
  }
  return ok({ ...call.heading, kind: 'streamed', parts: call.replyStreamed(starting) })
}

class Call {
  readonly heading: Heading
  private readonly dependencies: ChatDependencies
  private readonly served: Served
  private readonly request: ChatRequest
  private readonly admitted: Admitted
  /** Frozen at admission, however long the call goes on. */
  private readonly rate: TokenRate
  private readonly bounds: { readonly promptTokens: number; readonly outputTokens: number }
  private readonly signal: AbortSignal
  private readonly trace: CallTrace | null
  private readonly admittedMonotonicMs: number
  private readonly keep: Caller['keep']
  /** Another process has taken the request over, and charges it. */
  private isSuperseded = false

  constructor(
    dependencies: ChatDependencies,
    served: Served,
    request: ChatRequest,
    admitted: Admitted,
    bounds: { readonly promptTokens: number; readonly outputTokens: number },
    signal: AbortSignal,
    trace: CallTrace | null,
    keep: Caller['keep'],
  ) {
    this.keep = keep
    this.dependencies = dependencies
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
    const { clock, log, money } = dependencies
    try {
      const opened = await openChat(dependencies.targets(served), this.toCall(), {
        signal,
        deadlines: dependencies.catalog().deadlines,
        plan: served.tier.routing,
        health: dependencies.health,
        random: dependencies.random,
        clock,
        log,
        ...(dependencies.metrics === undefined ? {} : { metrics: dependencies.metrics }),
        ...(trace && { onAttempt: ({ upstream, model }, ...how) => trace.attempt(upstream.name, model, ...how) }),
      })
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
      return ok({ generation, target: `${opened.target.upstream.name}/${opened.target.model}`, first })
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
      usage = generation.limited(estimated ? await this.count(generation, reported) : reported)
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

  /** What the upstream did not report, or reported on its way and not at the end (C4). */
  private async count(generation: Generation, reported: TokenUsage | null): Promise<TokenUsage> {
    const counter = this.dependencies.tokenCounter
    const completionTokens = await counter.count([generation.text, generation.reasoning])
    if (reported !== null) {
      return { ...reported, completionTokens: Math.max(reported.completionTokens, completionTokens) }
    }
    const promptTokens = await countPrompt(counter, this.request.messages)
    return { promptTokens, cachedPromptTokens: 0, completionTokens }
  }

  private failed(refusal: Refusal): Result<never> {
    this.trace?.end({ ...NOTHING, error: this.signal.aborted ? 'cancelled' : refusal.code })
    return refused(refusal)
  }

  private endTrace(error: string | null, { finishReason }: Generation, settled: Settled | null): void {
    const { usage = null, costMicrocents = null } = settled ?? {}
    this.trace?.end({ error, finishReason, usage, costMicrocents })
  }

  /** In the client's words (C7); the operator's are in the log. */
  private explain(error: unknown): Refusal {
    if (error instanceof UpstreamFailure) return toRefusal(error)
    if (this.signal.aborted) return CLIENT_GONE
    this.dependencies.log.error({ err: error, chargeId: this.admitted.admission.chargeId }, 'a chat call failed')
    return refusal(
      'internal_error',
      'The call failed here, unexpectedly. Nothing was charged; it is safe to try again.',
    )
  }

  private toCall(): Omit<ChatCall, 'model'> {
    const { messages, maxTokens, temperature } = this.request
    const { outputTokens } = this.bounds
    return { messages, maxTokens: maxTokens === null ? null : outputTokens, outputTokens, temperature }
  }
}

/** What is told to a trace of a call that came to nothing. */
const NOTHING = { finishReason: null, usage: null, costMicrocents: null }

function toTraced({ organizationId, keyId, traceparent }: Caller, { model, tier }: Served, request: ChatRequest) {
  const { stream: isStreamed, maxTokens, temperature } = request
  const operation = 'chat'
  const caller = { organizationId, keyId, traceparent }
  return { operation, model: model.id, tier: tier.name, ...caller, isStreamed, maxTokens, temperature } as const
}

/** Nobody reads this; it ends the request. */
const CLIENT_GONE = refusal('upstream_unavailable', 'The client closed the connection. Nothing was charged.')
