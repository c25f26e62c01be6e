import { z } from 'zod'
import { lookUpForCall, type ResolvedModel } from '../../catalog/model.ts'
import type { CompatSettings } from '../../catalog/settings.ts'
import { boundedList, ISSUES_MOST } from '../../http/boundedList.ts'
import { type EarlyEnd, watchCall } from '../../http/callEnd.ts'
import { costComment } from '../../http/cost.ts'
import { errorEvent } from '../../http/envelopes.ts'
import { eventStream, STREAM_HEADERS } from '../../http/eventStream.ts'
import { type ExplainIssue, type Issue, pathOf } from '../../http/faults.ts'
import type { Attempt } from '../../http/idempotency/attempts.ts'
import { callerOf, type Prepare } from '../../http/onceForKey.ts'
import type { Answer, RouteRequest } from '../../http/pipeline.ts'
import { validate } from '../../http/validate.ts'
import { wholeAnswer } from '../../http/wholeAnswer.ts'
import { type CallSignal, signalWith } from '../../lib/callSignal.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'
import { ok, refused } from '../../lib/result.ts'
import type { InferenceCaller } from '../call/caller.ts'
import { TEXT_PARTS_MOST, withJoinedText, withoutNeutral } from './compat.ts'
import { completeStreamed, completeWhole } from './complete.ts'
import type { ChatDependencies } from './dependencies.ts'
import { KeptStream } from './keptStream.ts'
import { refuseUndeclared } from './refusals.ts'
import type { EndPart, Heading, ShownUsage, StreamedPart, StreamedReply, WholeReply } from './reply.ts'
import type { ChatRequest } from './request.ts'
import {
  type ChatRequestBody,
  chatCompletionRequest,
  chatMessage,
  chatRequestSchema,
  givenParameters,
  lenientChatRequest,
} from './requestSchema.ts'

const tooManyMessages = (most: number) =>
  `must hold at most ${most} messages; leave out the oldest, or put several into one`

function countMessages(body: unknown): number {
  if (typeof body !== 'object' || body === null || !('messages' in body)) return 0
  return Array.isArray(body.messages) ? body.messages.length : 0
}

/** Returns the same to validate with: of at most so many messages, and not all looked at where many are wrong. */
function boundedRequestSchema(compat: CompatSettings, messagesMost: number): z.ZodType<ChatRequestBody> {
  const messages = boundedList(chatMessage, {
    least: 1,
    most: messagesMost,
    tooFew: 'must hold at least one message',
    tooMany: tooManyMessages(messagesMost),
  })
  return compat.maxCompletionTokens
    ? lenientChatRequest.extend({ messages })
    : chatCompletionRequest.extend({ messages })
}

const usage = z
  .object({
    prompt_tokens: z.int(),
    completion_tokens: z.int(),
    total_tokens: z.int(),
    prompt_tokens_details: z
      .object({ cached_tokens: z.int().min(1) })
      .optional()
      .meta({ description: 'Present when cached prompt tokens were charged at the rate for cached prompt tokens.' }),
  })
  .meta({ id: 'ChatUsage' })

const finishReason = z.enum(['stop', 'length', 'content_filter', 'tool_calls'])

export const chatCompletionResponse = z
  .object({
    id: z.string(),
    object: z.literal('chat.completion'),
    created: z.int().meta({ description: 'Unix seconds.' }),
    model: z.string().meta({ description: 'The canonical id.' }),
    choices: z.array(z.object({ index: z.int(), message: chatMessage, finish_reason: finishReason })),
    usage,
  })
  .meta({ id: 'ChatCompletionResponse' })

export const chatCompletionChunk = z
  .object({
    id: z.string(),
    object: z.literal('chat.completion.chunk'),
    created: z.int().meta({ description: 'Unix seconds.' }),
    model: z.string(),
    choices: z.array(
      z.object({
        index: z.int(),
        delta: z.object({ role: z.literal('assistant').optional(), content: z.string().optional() }),
        finish_reason: finishReason.nullable(),
      }),
    ),
    usage: usage.optional().meta({ description: 'In the last chunk, unless `include_usage` is false.' }),
  })
  .meta({ id: 'ChatCompletionChunk' })

const NO_PARTS = 'a list of parts is not supported'
const TEXT_PARTS = `at most ${TEXT_PARTS_MOST} parts of the type 'text' are supported, each with a text and nothing else`

const TOOL_ROLES = new Set(['tool', 'function'])

/**
 * Returns chat's own refusals for three mistakes: tool calling inside messages, names of newer clients, and content in parts (C8). Null:
 * another mistake.
 */
function explainFor({ textParts }: Pick<CompatSettings, 'textParts'>): ExplainIssue {
  const parts = textParts ? TEXT_PARTS : NO_PARTS
  return (issue, body) => explain(issue, body, parts)
}

function explain(issue: Issue, body: unknown, parts: string): Refusal | null {
  const param = pathOf(issue.path)
  if (/^messages\[\d+\]\.content$/.test(param) && Array.isArray(valueAt(body, issue.path))) {
    return refusal('validation_failed', `'${param}': ${parts}; send the text as one string.`, { param })
  }
  if (issue.code === 'unrecognized_keys' && issue.path.length === 0 && issue.keys[0] === 'max_completion_tokens') {
    return refusal('unsupported_parameter', "The parameter 'max_completion_tokens' is not supported; use max_tokens.", {
      param: 'max_completion_tokens',
    })
  }
  if (/^messages\[\d+\]\.role$/.test(param)) {
    const role = valueAt(body, issue.path)
    if (typeof role === 'string' && TOOL_ROLES.has(role)) {
      return refusal('unsupported_parameter', `Tool calling is not supported: '${param}' is '${role}'.`, { param })
    }
    if (role === 'developer') {
      return refusal('validation_failed', `'${param}': the role 'developer' is not known here; use system.`, { param })
    }
  }
  return null
}

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  let value = body
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return undefined
    value = (value as Record<PropertyKey, unknown>)[part]
  }
  return value
}

function fromWire(body: ChatRequestBody): ChatRequest {
  return {
    model: body.model,
    messages: body.messages,
    stream: body.stream ?? false,
    includeUsage: body.stream_options?.include_usage ?? true,
    maxTokens: body.max_tokens ?? body.max_completion_tokens ?? null,
    temperature: body.temperature ?? null,
  }
}

const TWO_LIMITS = refusal(
  'validation_failed',
  "'max_completion_tokens' must be the same as 'max_tokens': give only one of them.",
  { param: 'max_completion_tokens' },
)

/** POST /chat/completions. */
export function chatCompletions(dependencies: ChatDependencies, compat: CompatSettings, messagesMost: number): Prepare {
  // Few messages have few issues: without a bound they are validated in less than half the time.
  const ofFew = chatRequestSchema(compat)
  const ofMany = boundedRequestSchema(compat, messagesMost)
  const explain = explainFor(compat)
  const tooMany = refusal('validation_failed', `'messages': ${tooManyMessages(messagesMost)}.`, { param: 'messages' })
  return (call) => {
    const count = countMessages(call.body)
    // Looked at before anything is walked through.
    if (count > messagesMost) return refused(tooMany)
    const known = compat.neutralParameters ? withoutNeutral(call.body) : call.body
    const body = compat.textParts ? withJoinedText(known) : known
    const schema = count > 0 && count <= ISSUES_MOST ? ofFew : ofMany
    const valid = validate(schema, body, 'validation_failed', explain)
    if (!valid.ok) return valid
    const { max_tokens: limit, max_completion_tokens: other } = valid.value
    if (typeof limit === 'number' && typeof other === 'number' && limit !== other) return refused(TWO_LIMITS)
    const request = fromWire(valid.value)
    const given = givenParameters(valid.value)
    return ok((attempt) => answer(dependencies, call, request, given, attempt))
  }
}

function answer(
  dependencies: ChatDependencies,
  call: RouteRequest,
  request: ChatRequest,
  given: readonly string[],
  attempt: Attempt | null,
): Answer | Promise<Answer> {
  const found = lookUpForCall(dependencies.catalog(), request.model, 'chat')
  if (!found.ok) return refuseModel(found.refusal, request, call)
  const resolved = found.value
  const undeclared = refuseUndeclared(resolved.model, given)
  if (undeclared !== null) return undeclared
  const isTraced = dependencies.telemetry !== undefined
  if (request.stream) return answerStreamed(dependencies, call, resolved, request, attempt)
  const pay = (caller: InferenceCaller, signal: CallSignal) =>
    completeWhole(dependencies, caller, resolved, request, signal)
  const options = { clock: dependencies.clock, isTraced, outlivesClient: outlivesClient(resolved) }
  return wholeAnswer(call, attempt, options, pay, completionToWire)
}

/**
 * Returns whether a call goes on when its client has left: where the model may reason without sending it, only the report at the end says
 * how much was generated (C3).
 */
function outlivesClient({ model }: ResolvedModel): boolean {
  return model.hiddenReasoningTokens > 0
}

async function answerStreamed(
  dependencies: ChatDependencies,
  call: RouteRequest,
  resolved: ResolvedModel,
  request: ChatRequest,
  attempt: Attempt | null,
): Promise<Answer> {
  const leave = call.holdOpen()
  const gone = signalWith(call.request.signal)
  const runsOn = attempt !== null || outlivesClient(resolved)
  const end = watchCall(call, runsOn, gone)
  const onEnd = () => {
    end.close()
    leave()
  }
  let isStreaming = false
  try {
    const caller = callerOf(call, attempt, dependencies.telemetry !== undefined)
    const answered = await completeStreamed(dependencies, caller, resolved, request, end.signal)
    if (!answered.ok) return end.refusal ?? answered.refusal
    isStreaming = true
    const toWire = partWriter(answered.value, request.includeUsage, attempt, end)
    const { clock } = dependencies
    const options = { clock, gone, onEnd, isReadToItsEnd: runsOn }
    return new Response(eventStream(answered.value.parts, toWire, options), { headers: streamHeadersOf(call) })
  } finally {
    if (!isStreaming) onEnd()
  }
}

/** An unknown model on a stream is told as the stream's only event, with status 200 (C2). */
function refuseModel(refused: Refusal, request: ChatRequest, call: RouteRequest): Response | Refusal {
  if (!request.stream) return refused
  call.noteUnpaid()
  return new Response(errorEvent(refused) + DONE, { headers: streamHeadersOf(call) })
}

function streamHeadersOf({ requestId }: RouteRequest): Record<string, string> {
  return { ...STREAM_HEADERS, 'X-Request-Id': requestId }
}

/**
 * Turns the parts of a streamed answer into its events. The call is charged before its last chunk leaves, with its cost, and
 * `[DONE]`. With a key, the same transaction keeps the answer. If the charge fails, an error event is sent instead. A stream that
 * ends with an error is not kept: its key is free before the client hears of the error (C5).
 */
function partWriter(
  reply: StreamedReply,
  includeUsage: boolean,
  attempt: Attempt | null,
  callEnd: EarlyEnd,
): (part: StreamedPart) => string | Promise<string> {
  const write = chunkWriter(reply, includeUsage)
  const kept = attempt === null ? null : new KeptStream()
  let opening = write.first()

  /** The key ended the call: what was generated is charged, and the client reads why there is no more. */
  const writeKeyEnd = async ({ prepared }: EndPart, why: Refusal): Promise<string> => {
    const unanswered = await prepared.commit()
    await attempt?.end()
    const isCharged = unanswered === null || unanswered.isCharged
    return opening + errorToWire(unanswered?.refusal ?? why, isCharged ? prepared.costMicrocents : null)
  }
  const writeEnd = async (part: EndPart): Promise<string> => {
    const { prepared } = part
    if (callEnd.refusal !== null) return writeKeyEnd(part, callEnd.refusal)
    const end = write.end(part) + costComment(prepared.costMicrocents) + DONE
    const body = kept?.body({ opening: write.first(), event: write.text, end })
    const participants = body && (await attempt?.keep({ ...KEPT_STREAM, body }))
    const unanswered = await prepared.commit(participants)
    if (unanswered === null) return opening + end
    await attempt?.end()
    return errorToWire(unanswered.refusal, unanswered.isCharged ? prepared.costMicrocents : null)
  }
  return (part) => {
    if (part.kind === 'end') return writeEnd(part)
    if (part.kind === 'error') {
      const error = errorToWire(callEnd.refusal ?? part.refusal, part.costMicrocents)
      return attempt === null ? error : attempt.end().then(() => error)
    }
    const json = JSON.stringify(part.text)
    const piece = opening + write.text(json)
    opening = ''
    kept?.add(json)
    return piece
  }
}

/** Writes the end of a stream that is not whole. The cost is null when nothing was charged. */
function errorToWire(refused: Refusal, costMicrocents: bigint | null): string {
  return errorEvent(refused) + (costMicrocents === null ? '' : costComment(costMicrocents)) + DONE
}

/** A streamed answer that is given again, but for its body. */
const KEPT_STREAM = { status: 200, contentType: STREAM_HEADERS['Content-Type'], operationId: null } as const

const DONE = 'data: [DONE]\n\n'

function usageToWire(usage: ShownUsage) {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.promptTokens + usage.completionTokens,
    ...(usage.cachedTokens === null ? {} : { prompt_tokens_details: { cached_tokens: usage.cachedTokens } }),
  }
}

/** A whole answer as ChatCompletionResponse. */
function completionToWire(reply: WholeReply): string {
  return JSON.stringify({
    id: reply.id,
    object: 'chat.completion',
    created: reply.createdSeconds,
    model: reply.model,
    choices: [{ index: 0, message: { role: 'assistant', content: reply.text }, finish_reason: reply.finishReason }],
    usage: usageToWire(reply.usage),
  })
}

/**
 * Turns the parts of a streamed answer into `data:` events (C1): the role first, `choices` never empty, the last
 * chunk with the finish reason and, where asked for, the usage. The fields that all chunks of an answer share are
 * serialized once.
 */
function chunkWriter(reply: Heading, includeUsage: boolean) {
  const shared =
    `data: {"id":${JSON.stringify(reply.id)},"object":"chat.completion.chunk","created":${reply.createdSeconds},` +
    `"model":${JSON.stringify(reply.model)},"choices":[{"index":0,"delta":`
  return {
    first: () => `${shared}{"role":"assistant","content":""},"finish_reason":null}]}\n\n`,
    /** Of a text that is given in JSON. */
    text: (json: string) => `${shared}{"content":${json}},"finish_reason":null}]}\n\n`,
    end: ({ finishReason, usage }: EndPart) => {
      const totals = includeUsage ? `,"usage":${JSON.stringify(usageToWire(usage))}` : ''
      return `${shared}{},"finish_reason":"${finishReason}"}]${totals}}\n\n`
    },
  }
}
