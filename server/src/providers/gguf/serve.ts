import { createHash, randomUUID, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { z } from 'zod'
import { answerChat, type ChildServerOptions, type Counters } from './answer.ts'
import { answerEmbeddings } from './embeddings.ts'
import { sendError, sendJson } from './reply.ts'
import { childChatRequestSchema, childEmbeddingsRequestSchema } from './wire.ts'

/** The gateway refuses bodies of half this size; what comes here is from the gateway. */
const MAXIMUM_BODY_BYTES = 32 * 1024 * 1024

/** The counts of the engine's calls since it was loaded, and of those it is working on. */
export interface EngineStats extends Counters {
  readonly sequences: number
  readonly active: number
  readonly waiting: number
}

/** OpenAI's endpoints over one engine: `/v1/chat/completions` (streamed only), `/v1/embeddings`, `/v1/models`, and `/stats`. */
export function createChatServer(options: ChildServerOptions): Server {
  const counters: Counters = { finished: 0, cancelled: 0, failed: 0, completionTokens: 0 }
  const secret = digest(`Bearer ${options.bearer}`)
  return createServer((request, response) => {
    // A client that resets its connection is no error of ours; without a listener it would end the process.
    response.on('error', () => response.destroy())
    route(request, response, options, counters, secret).catch((error: unknown) => {
      options.log(`a request failed: ${error instanceof Error ? error.name : 'unknown'}`)
      if (response.headersSent) response.destroy()
      else sendError(response, 500, 'internal_error', 'the request failed; try again')
    })
  })
}

async function route(
  request: IncomingMessage,
  response: ServerResponse,
  options: ChildServerOptions,
  counters: Counters,
  secret: Uint8Array,
): Promise<void> {
  if (!timingSafeEqual(digest(request.headers.authorization ?? ''), secret)) {
    sendError(response, 401, 'invalid_api_key', 'send the bearer token that the child was started with')
    return
  }
  const { engine } = options
  const target = `${request.method} ${request.url}`
  if (target === 'GET /v1/models') {
    const model = { id: engine.model, object: 'model', created: 0, owned_by: 'local' }
    sendJson(response, 200, { object: 'list', data: [model] })
  } else if (target === 'GET /stats') {
    const { inUse, waitingCount, size } = engine.sequences
    const stats: EngineStats = { sequences: size, active: inUse, waiting: waitingCount, ...counters }
    sendJson(response, 200, stats)
  } else if (target === 'POST /v1/chat/completions') {
    await chat(request, response, options, counters)
  } else if (target === 'POST /v1/embeddings') {
    const body = await readRequest(request, response, childEmbeddingsRequestSchema)
    if (body !== null) await answerEmbeddings(body, response, options, counters)
  } else {
    sendError(response, 404, 'not_found', 'this server has /v1/chat/completions, /v1/embeddings and /v1/models')
  }
}

async function chat(
  request: IncomingMessage,
  response: ServerResponse,
  options: ChildServerOptions,
  counters: Counters,
): Promise<void> {
  const body = await readRequest(request, response, childChatRequestSchema)
  if (body === null) return
  const head = {
    id: `chatcmpl-${randomUUID()}`,
    created: Math.floor(options.clock.now() / 1000),
    model: options.engine.model,
  }
  await answerChat(body, head, response, options, counters)
}

/** The body of a request, or null where it is none: that has been answered then. */
async function readRequest<T>(
  request: IncomingMessage,
  response: ServerResponse,
  schema: z.ZodType<T>,
): Promise<T | null> {
  const body = await readBody(request)
  if (body === null) {
    sendError(response, 413, 'request_too_large', `send at most ${MAXIMUM_BODY_BYTES} bytes`)
    return null
  }
  const parsed = schema.safeParse(body)
  if (parsed.success) return parsed.data
  const issue = parsed.error.issues[0]
  sendError(response, 400, 'invalid_request', issue?.message ?? 'not such a request', issue?.path.join('.') ?? null)
  return null
}

/** The body as JSON (undefined where it is none), or null where it is too large. */
async function readBody(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = []
  let length = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    length += part.length
    if (length > MAXIMUM_BODY_BYTES) return null
    parts.push(part)
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString('utf8')) ?? undefined
  } catch {
    return undefined
  }
}

const digest = (text: string) => createHash('sha256').update(text).digest()
