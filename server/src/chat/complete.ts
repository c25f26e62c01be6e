/** The story of one chat call: admit, call the upstream, settle, reply. `call.ts` tells it from the admission on. */

import type { Served } from '../catalog/model.ts'
import { rateAt } from '../catalog/price.ts'
import { ok, type Result } from '../kernel/result.ts'
import { SECOND_MS } from '../kernel/time.ts'
import { admitCall } from '../paid/admitCall.ts'
import { tracedOf } from '../paid/trace.ts'
import { Call, type ChatCaller } from './call.ts'
import type { ChatDependencies } from './dependencies.ts'
import type { ChatReply } from './reply.ts'
import { type ChatRequest, outputTokensAtMost, promptTokensAtMost, worstCase } from './request.ts'

/** A streamed call that has brought nothing for this long is answered all the same, so that proxies keep it open. */
const REPLY_LATEST_MS = 15 * SECOND_MS

/**
 * Answers a chat request. A refusal means that nothing was charged. `signal` says that the client is gone: the upstream
 * is cancelled and what was generated is charged. A streamed reply must be read to its end or returned: its last step
 * settles the call.
 */
export async function complete(
  dependencies: ChatDependencies,
  caller: ChatCaller,
  served: Served,
  request: ChatRequest,
  signal: AbortSignal,
): Promise<Result<ChatReply>> {
  const { clock, metrics } = dependencies
  const { model, tier } = served
  const trace = dependencies.telemetry?.begin(toTraced(caller, served, request)) ?? null
  const startedAtMs = clock.monotonicMs()
  const promptTokens = promptTokensAtMost(request.messages, model)
  const outputTokens = outputTokensAtMost(request, model)
  const worstAt = (admittedAtMs: number) =>
    worstCase(rateAt(tier.price, admittedAtMs), promptTokens, outputTokens, model.hiddenReasoningTokens)
  const passed = admitCall(dependencies, caller, served, worstAt, trace)
  const admission = passed instanceof Promise ? await passed : passed
  if (!admission.ok) return admission
  const bounds = { promptTokens, outputTokens }
  const call = new Call(dependencies, caller, served, request, admission.value, bounds, signal, trace)
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

function toTraced(caller: ChatCaller, served: Served, request: ChatRequest) {
  const { stream: isStreamed, maxTokens, temperature } = request
  return { ...tracedOf(caller, served), operation: 'chat', isStreamed, maxTokens, temperature } as const
}
