/** The story of one chat call: begin, admit, ask the targets, watch the answer, price it. The door commits and replies. */

import type { CallOutcome } from '../../billing/charges/charge.ts'
import { chatTerms, prepare } from '../../billing/charges/settle.ts'
import type { ResolvedModel } from '../../catalog/model.ts'
import { rateAt, type TokenRate } from '../../catalog/price.ts'
import type { CallSignal } from '../../lib/callSignal.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import { SECOND_MS } from '../../lib/time.ts'
import type { ChatCall, ProviderTarget } from '../../providers/dialect/spec.ts'
import { openChat } from '../../routing/openChat.ts'
import type { InferenceCaller } from '../call/caller.ts'
import { admitCall, beginCall, type PaidCall, type PreparedCall, targetName, tracedOf } from '../call/paidCall.ts'
import { CLIENT_GONE } from '../call/refusals.ts'
import type { ChatDependencies } from './dependencies.ts'
import { Generation } from './generation.ts'
import { cutMidCall, PROMPT_TOO_LONG } from './refusals.ts'
import type { Heading, ShownUsage, StreamedPart, StreamedParts, StreamedReply, WholeReply } from './reply.ts'
import {
  type ChatRequest,
  chatWorstCase,
  isTooLong,
  outputTokensAtMost,
  promptOf,
  promptTokensAtMost,
} from './request.ts'
import { type BoundedPrompt, type Generated, usageOf } from './usage.ts'

/** A streamed call that has brought nothing for this long is answered all the same, so that proxies keep it open. */
const REPLY_LATEST_MS = 15 * SECOND_MS

/**
 * Answers a chat request in one piece. A refusal means that nothing was charged, except that of a client
 * that has gone: then the prompt may be. `signal` says that the client is gone: the
 * provider is cancelled, and what was generated is charged. The caller commits `prepared` before the answer leaves.
 */
export async function completeWhole(
  dependencies: ChatDependencies,
  caller: InferenceCaller,
  resolved: ResolvedModel,
  request: ChatRequest,
  signal: CallSignal,
): Promise<Result<WholeReply>> {
  const admitting = admitChat(dependencies, caller, resolved, request, signal)
  const admitted = admitting instanceof Promise ? await admitting : admitting
  return admitted.ok ? admitted.value.replyWhole() : admitted
}

/**
 * Answers a chat request as a stream, once its first text is here or 15 s have passed. Otherwise works as {@link
 * completeWhole}: the door that writes the last part commits it first. If no door commits the call, the end of the
 * stream does.
 */
export async function completeStreamed(
  dependencies: ChatDependencies,
  caller: InferenceCaller,
  resolved: ResolvedModel,
  request: ChatRequest,
  signal: CallSignal,
): Promise<Result<StreamedReply>> {
  const { clock, metrics } = dependencies
  const startedAtMs = clock.monotonicMs()
  const admitting = admitChat(dependencies, caller, resolved, request, signal)
  const admitted = admitting instanceof Promise ? await admitting : admitting
  if (!admitted.ok) return admitted
  const call = admitted.value
  const starting = call.start()
  let cancelTimer = () => {}
  const latest = new Promise<null>((resolve) => {
    cancelTimer = clock.after(REPLY_LATEST_MS, () => resolve(null))
  })
  const started = await Promise.race([starting, latest])
  cancelTimer()
  if (started?.ok === false) return started
  if (started) {
    metrics?.firstToken(clock.monotonicMs() - startedAtMs)
    call.paid.context.trace?.firstToken()
  }
  const { id, createdSeconds, model } = call.heading
  return ok({ id, createdSeconds, model, parts: call.parts(starting) })
}

/** The most tokens that a call can come to, and what it is asked with. */
interface Bounds extends BoundedPrompt {
  readonly outputTokens: number
}

/** Admits a chat call: its worst case is computed at the instant of its admission. */
function admitChat(
  dependencies: ChatDependencies,
  caller: InferenceCaller,
  resolved: ResolvedModel,
  request: ChatRequest,
  signal: CallSignal,
): Result<ChatCompletion> | Promise<Result<ChatCompletion>> {
  const { model, tier } = resolved
  const prompt = promptOf(request.messages)
  if (isTooLong(prompt, model)) return refused(PROMPT_TOO_LONG)
  const { stream: isStreamed, maxTokens, temperature } = request
  const trace =
    dependencies.telemetry?.begin({
      ...tracedOf(caller, resolved),
      operation: 'chat',
      isStreamed,
      maxTokens,
      temperature,
    }) ?? null
  const bounds: Bounds = {
    prompt,
    promptTokens: promptTokensAtMost(prompt, model),
    contextTokens: model.contextTokens,
    outputTokens: outputTokensAtMost(request, model),
  }
  const admission = beginCall(dependencies.money, caller, resolved)
  const rate = rateAt(tier.price, admission.admittedAtMs)
  const worst = chatWorstCase(rate, bounds.promptTokens, bounds.outputTokens, model.hiddenReasoningTokens)
  const context = { dependencies, caller, resolved, signal, isStreamed, trace, name: 'a chat call' }
  const admitting = admitCall(context, admission, worst)
  const enter = (admitted: Result<PaidCall>) =>
    admitted.ok ? ok(new ChatCompletion(dependencies, admitted.value, request, bounds, rate)) : admitted
  return admitting instanceof Promise ? admitting.then(enter) : enter(admitting)
}

/** A call under way: admitted, and its provider answering. */
interface Running {
  readonly generation: Generation
  readonly target: string
  /** The first piece of text, already taken from the generation; null when it ended without any. */
  readonly first: string | null
}

/** One chat call from its admission on. */
class ChatCompletion {
  readonly paid: PaidCall
  readonly heading: Heading
  private readonly dependencies: ChatDependencies
  private readonly request: ChatRequest
  private readonly bounds: Bounds
  /** Frozen at admission, however long the call goes on. */
  private readonly rate: TokenRate
  /** Targets that were sent the whole prompt and have not refused it. */
  private readonly atWork: ProviderTarget[] = []
  /** While its texts are forwarded. */
  private forwarded: Generation | null = null

  constructor(dependencies: ChatDependencies, paid: PaidCall, request: ChatRequest, bounds: Bounds, rate: TokenRate) {
    this.dependencies = dependencies
    this.paid = paid
    this.request = request
    this.bounds = bounds
    this.rate = rate
    const { chargeId, admittedAtMs } = paid.admitted.admission
    this.heading = {
      id: `chatcmpl-${chargeId.replaceAll('-', '')}`,
      createdSeconds: Math.floor(admittedAtMs / SECOND_MS),
      model: paid.context.resolved.model.id,
    }
  }

  /** Reaches the provider and waits for the first text. On a refusal the hold has ended. */
  async start(): Promise<Result<Running>> {
    const { dependencies, paid, atWork } = this
    const { resolved, signal } = paid.context
    try {
      const targets = dependencies.providers.targetsOf(resolved.tier)
      const opened = await openChat(targets, this.toCall(), paid.routeOptions(signal, atWork))
      const generation = new Generation(opened.events, this.budget(), signal)
      const first = await generation.next()
      if (first === null && generation.outcome === 'interrupted' && !generation.hasTokens) throw generation.failure
      return ok({ generation, target: targetName(opened.target), first })
    } catch (error) {
      const target = signal.aborted ? atWork.at(-1) : undefined
      return target === undefined ? paid.fail(error) : this.chargePrompt(target)
    }
  }

  /** Charges the prompt: the client left before the first token, and a target may be at work on it (C3). */
  private async chargePrompt(target: ProviderTarget): Promise<Result<never>> {
    const nothing = { text: '', reasoning: '', bytes: 0, usage: null, isUsageBehind: false }
    const prepared = await this.prepare(nothing, 'cancelled', targetName(target), 'cancelled', null)
    await prepared.commit()
    return refused(CLIENT_GONE)
  }

  /** The whole answer at once. */
  async replyWhole(): Promise<Result<WholeReply>> {
    const started = await this.start()
    if (!started.ok) return started
    const { generation, target } = started.value
    while ((await generation.next()) !== null);
    // Nothing was delivered, so nothing is charged (C5).
    if (generation.outcome === 'interrupted') return this.paid.fail(generation.failure)
    const { text, finishReason } = generation
    const prepared = await this.prepare(generation, generation.outcome ?? 'cancelled', target, null, finishReason)
    const { id, createdSeconds, model } = this.heading
    return ok({ id, createdSeconds, model, text, finishReason, usage: this.shown(prepared), prepared })
  }

  /** The answer in pieces: its story as a generator tells it, and the texts around that, as soon as they are here. */
  parts(starting: Promise<Result<Running>>): StreamedParts {
    return Object.assign(this.replyStreamed(starting), {
      ready: (): StreamedPart | undefined => {
        const text = this.forwarded?.ready()
        return text === undefined ? undefined : { kind: 'text', text }
      },
      whenReady: (callback: () => void) => this.forwarded?.whenReady(callback) === true,
    })
  }

  private async *replyStreamed(starting: Promise<Result<Running>>): AsyncGenerator<StreamedPart, void> {
    const started = await starting
    if (!started.ok) {
      yield { kind: 'error', refusal: started.refusal, costMicrocents: null }
      return
    }
    const { generation, first, target } = started.value
    let prepared: PreparedCall | null = null
    try {
      this.forwarded = generation
      for (let text = first; text !== null; text = await generation.next()) yield { kind: 'text', text }
      this.forwarded = null
      const { finishReason, insufficientGate } = generation
      const outcome = generation.outcome ?? 'cancelled'
      const error = outcome === 'completed' ? null : outcome
      prepared = await this.prepare(generation, outcome, target, error, finishReason)
      if (insufficientGate === null && outcome !== 'interrupted') {
        yield { kind: 'end', finishReason, usage: this.shown(prepared), prepared }
      } else yield await this.brokenOff(generation, prepared)
    } finally {
      this.forwarded = null
      await generation.stop()
      if (prepared === null && this.paid.admitted.hold.isOpen) {
        const outcome = generation.outcome ?? 'cancelled'
        prepared = await this.prepare(generation, outcome, target, 'cancelled', generation.finishReason)
      }
      // The door that wrote the last part has committed the call already; then this does nothing.
      await prepared?.commit()
    }
  }

  /** Charges a stream whose money ran out or whose provider broke off, and returns its last part. */
  private async brokenOff(generation: Generation, prepared: PreparedCall): Promise<StreamedPart> {
    const { insufficientGate, failure } = generation
    const unanswered = await prepared.commit()
    const why = insufficientGate !== null ? cutMidCall(insufficientGate) : this.paid.explain(failure)
    const isCharged = unanswered === null || unanswered.isCharged
    const costMicrocents = isCharged ? prepared.costMicrocents : null
    return { kind: 'error', refusal: unanswered?.refusal ?? why, costMicrocents }
  }

  /** Counts and prices what was generated. `error` and `finishReason` are for the trace. */
  private async prepare(
    generated: Generated,
    outcome: CallOutcome,
    target: string,
    error: string | null,
    finishReason: string | null,
  ): Promise<PreparedCall> {
    const { dependencies, paid, request, bounds, rate } = this
    const { money, log, tokenCounter } = dependencies
    try {
      const counting = usageOf(tokenCounter, paid.admitted.admission.organizationId, bounds, generated)
      const { usage, estimated, disbelieved } = counting instanceof Promise ? await counting : counting
      if (disbelieved !== null) {
        const { chargeId } = paid.admitted.admission
        log.warn({ chargeId, target, reported: disbelieved, counted: usage }, 'a provider reports too few tokens')
      }
      const terms = chatTerms(rate, {
        promptTokens: bounds.promptTokens,
        completionTokens: request.maxTokens === null ? Number.POSITIVE_INFINITY : bounds.outputTokens,
        totalTokens: bounds.contextTokens,
      })
      const preparing = prepare(money, paid.admitted, terms, { usage, estimated, target, outcome })
      const prepared = preparing instanceof Promise ? await preparing : preparing
      return paid.prepared(prepared, { error, finishReason })
    } catch (failure) {
      paid.drop()
      throw failure
    }
  }

  private shown({ usage }: PreparedCall): ShownUsage {
    const { promptTokens, cachedPromptTokens, completionTokens } = usage
    const isCached = this.rate.cachedInputMicrocents !== null && cachedPromptTokens > 0
    return { promptTokens, cachedPromptTokens, completionTokens, cachedTokens: isCached ? cachedPromptTokens : null }
  }

  private budget() {
    const { model } = this.paid.context.resolved
    const { admission, hold } = this.paid.admitted
    const { money } = this.dependencies
    return {
      money,
      share: money.share(admission.organizationId),
      hold,
      price: this.rate,
      promptTokens: this.bounds.promptTokens,
      outputTokens: this.bounds.outputTokens,
      outputIsLimited: this.request.maxTokens !== null,
      hiddenTokens: model.hiddenReasoningTokens,
      contextTokens: this.bounds.contextTokens,
    }
  }

  private toCall(): Omit<ChatCall, 'model'> {
    const { messages, maxTokens, temperature } = this.request
    const { outputTokens } = this.bounds
    return { messages, maxTokens: maxTokens === null ? null : outputTokens, outputTokens, temperature }
  }
}
