import { z } from 'zod'
import { lookUpForCall } from '../catalog/model.ts'
import type { CompatSettings } from '../catalog/settings.ts'
import { COST_HEADER, costComment } from '../edge/cost.ts'
import { errorEvent } from '../edge/envelopes.ts'
import { eventStream } from '../edge/eventStream.ts'
import { type Attempt, cancelSignal, type Prepare } from '../edge/onceForKey.ts'
import type { OpenRequests } from '../edge/openRequests.ts'
import type { Answer, Call } from '../edge/pipeline.ts'
import { type Issue, pathOf, validate } from '../edge/validate.ts'
import { type Refusal, refusal } from '../kernel/errors.ts'
import { ok, refused } from '../kernel/result.ts'
import { withoutNeutral } from './compat.ts'
import { complete } from './complete.ts'
import type { ChatDependencies } from './dependencies.ts'
import { Recording, toItsEnd } from './recording.ts'
import type { ChatReply, EndPart, StreamedPart, WholeReply } from './reply.ts'
import type { ChatRequest } from './request.ts'
import { chunkWriter, completionToWire, DONE } from './wire.ts'

const JSON_TYPE = 'application/json'
const STREAM_TYPE = 'text/event-stream'

const chatMessage = z
  .strictObject({
    role: z.enum(['system', 'user', 'assistant'], { error: "must be one of 'system', 'user', 'assistant'" }),
    content: z.string().meta({ description: 'Text. May be empty.' }),
  })
  .meta({ id: 'ChatMessage' })

const chatCompletionRequest = z
  .strictObject({
    model: z.string().min(1).meta({ description: 'A model id or alias, optionally with `:economy`.' }),
    messages: z.array(chatMessage).min(1, { error: 'must hold at least one message' }),
    stream: z.boolean().nullish().meta({ description: 'Default false.' }),
    stream_options: z.strictObject({ include_usage: z.boolean().nullish() }).nullish(),
    max_tokens: z.int().min(1).nullish(),
    temperature: z.number().min(0).max(2).nullish(),
  })
  .meta({ id: 'ChatCompletionRequest' })

/** With the name that newer clients use; only one of the two may be given, or both alike. */
const lenientRequest = chatCompletionRequest
  .extend({
    max_completion_tokens: z.int().min(1).nullish().meta({ description: 'Another name of `max_tokens`.' }),
  })
  .meta({ id: 'LenientChatCompletionRequest' })

type RequestBody = z.infer<typeof lenientRequest>

/** What a request may say under these settings. */
export function chatRequestSchema(compat: CompatSettings): z.ZodType<RequestBody> {
  return compat.maxCompletionTokens ? lenientRequest : chatCompletionRequest
}

const usage = z
  .object({
    prompt_tokens: z.int(),
    completion_tokens: z.int(),
    total_tokens: z.int(),
    prompt_tokens_details: z
      .object({ cached_tokens: z.int() })
      .optional()
      .meta({ description: 'Present when the model has a rate of its own for cached prompt tokens.' }),
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

const TOOL_ROLES = new Set(['tool', 'function'])

/** What chat says in its own words: tool calling inside messages, and the names that newer clients use (C8). */
function explain(issue: Issue, body: unknown): Refusal | null {
  const param = pathOf(issue.path)
  if (issue.code === 'unrecognized_keys' && issue.path.length === 0 && issue.keys.includes('max_completion_tokens')) {
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

function fromWire(body: RequestBody): ChatRequest {
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
export function chatCompletions(
  dependencies: ChatDependencies,
  openRequests: OpenRequests,
  compat: CompatSettings,
): Prepare {
  const schema = chatRequestSchema(compat)
  return (call) => {
    const body = compat.neutralParameters ? withoutNeutral(call.body) : call.body
    const valid = validate(schema, body, 'validation_failed', explain)
    if (!valid.ok) return valid
    const { max_tokens: limit, max_completion_tokens: other } = valid.value
    if (typeof limit === 'number' && typeof other === 'number' && limit !== other) return refused(TWO_LIMITS)
    const request = fromWire(valid.value)
    return ok((attempt) => answer(dependencies, openRequests, call, request, attempt))
  }
}

async function answer(
  dependencies: ChatDependencies,
  openRequests: OpenRequests,
  call: Call,
  request: ChatRequest,
  attempt: Attempt | null,
): Promise<Answer> {
  const found = lookUpForCall(dependencies.catalog(), request.model, 'chat')
  if (!found.ok) return refuseModel(found.refusal, request, call)
  const taking = openRequests.take(call.key.id)
  const place = taking instanceof Promise ? await taking : taking
  if (typeof place !== 'function') return place
  const leave = call.holdOpen()
  const end = () => {
    place()
    leave()
  }
  let streaming = false
  try {
    const kept = attempt === null ? null : new KeptChat(attempt)
    const keep = kept === null ? {} : { keep: kept.keep }
    const traceparent = dependencies.telemetry ? call.request.headers.get('traceparent') : null
    const caller = { organizationId: call.key.organizationId, keyId: call.key.id, traceparent, ...keep }
    const gone = request.stream ? goneWith(call.request.signal) : null
    const signal = kept === null && gone !== null ? gone.signal : cancelSignal(call, attempt)
    const answered = await complete(dependencies, caller, found.value, request, signal)
    if (!answered.ok) return answered.refusal
    const reply = answered.value
    if (reply.kind === 'whole') {
      const headers = headersOf(call, JSON_TYPE)
      headers[COST_HEADER] = `${reply.costMicrocents}`
      return new Response(completionToWire(reply), { headers })
    }
    streaming = true
    const toWire = partWriter(reply, request.includeUsage)
    const options = { clock: dependencies.clock, gone: gone ?? goneWith(signal), onEnd: end }
    const stream =
      kept === null
        ? eventStream(reply.parts, toWire, options)
        : eventStream(kept.record(reply.parts, toWire), (text) => text, options)
    return new Response(stream, { headers: headersOf(call, STREAM_TYPE) })
  } finally {
    if (!streaming) end()
  }
}

/** The answer of an attempt, kept in the transaction of its charge. */
class KeptChat {
  private readonly attempt: Attempt
  private recording: Recording<StreamedPart> | null = null

  constructor(attempt: Attempt) {
    this.attempt = attempt
  }

  record(parts: AsyncGenerator<StreamedPart, void>, toWire: (part: StreamedPart) => string) {
    this.recording = new Recording(toWire)
    return toItsEnd(parts, this.recording, ({ kind }) => (kind === 'error' ? this.giveUp() : undefined))
  }

  /** An answer that ends with an error is not kept: its key is free before the client hears of it (C5). */
  private giveUp(): Promise<void> {
    // Its charge may have been refused to us when its end was written already, which must not leave now.
    this.recording?.forgetLast()
    return this.attempt.end()
  }

  readonly keep = (answer: WholeReply | EndPart) => {
    const { recording } = this
    const body =
      answer.kind === 'whole' ? new TextEncoder().encode(completionToWire(answer)) : recording?.wholeWith(answer)
    if (body === undefined) return Promise.resolve([])
    const contentType = answer.kind === 'whole' ? JSON_TYPE : STREAM_TYPE
    return this.attempt.keep({ status: 200, contentType, operationId: null, body })
  }
}

/** Aborted with the connection, and by a stream that notices first that its client is gone. */
function goneWith(connection: AbortSignal): AbortController {
  const gone = new AbortController()
  // It may have left while its key was looked up; no event tells of that again.
  if (connection.aborted) gone.abort()
  else connection.addEventListener('abort', () => gone.abort(), { once: true })
  return gone
}

/** An unknown model on a stream is told as the stream's only event, with status 200 (C2). */
function refuseModel(refused: Refusal, request: ChatRequest, call: Call): Response | Refusal {
  if (!request.stream) return refused
  return new Response(errorEvent(refused) + DONE, { headers: headersOf(call, STREAM_TYPE) })
}

function headersOf(call: Call, contentType: string): Record<string, string> {
  const headers: Record<string, string> = { 'Content-Type': contentType, 'X-Request-Id': call.requestId }
  if (contentType === STREAM_TYPE) {
    headers['Cache-Control'] = 'no-cache'
    // nginx would gather a stream before passing it on.
    headers['X-Accel-Buffering'] = 'no'
  }
  return headers
}

/** Turns the parts of a streamed answer into its events; after the last what it cost, and `[DONE]`. */
function partWriter(
  reply: Extract<ChatReply, { kind: 'streamed' }>,
  includeUsage: boolean,
): (part: StreamedPart) => string {
  const write = chunkWriter(reply, includeUsage)
  let opening = write.first()
  return (part) => {
    if (part.kind === 'error') {
      const cost = part.costMicrocents === null ? '' : costComment(part.costMicrocents)
      return errorEvent(part.refusal) + cost + DONE
    }
    const before = opening
    opening = ''
    if (part.kind === 'text') return before + write.text(part.text)
    return before + write.end(part) + costComment(part.costMicrocents) + DONE
  }
}
