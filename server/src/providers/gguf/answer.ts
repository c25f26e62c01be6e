import type { ServerResponse } from 'node:http'
import { type Clock, MINUTE_MS } from '../../lib/time.ts'
import type { Engine, Piece, RenderedPrompt } from './engine.ts'
import { PoolFull } from './pool.ts'
import { sendError } from './reply.ts'
import { TOKEN_CHARACTERS } from './tokenCharacters.ts'
import { type ChildChatRequest, type ChunkHead, childErrorEvent, chunkEvent, DONE_EVENT, usageEvent } from './wire.ts'

/**
 * The engine can't be made to wait for a reader. Generated text that is not yet read is kept up to this bound (some
 * 20,000 tokens); then the reader is cut off.
 */
const MAXIMUM_UNREAD_BYTES = 4 * 1024 * 1024

/** An engine that has not let go of a call this long after its caller left is stuck in native code. */
const STUCK_AFTER_MS = MINUTE_MS

/** The number of calls so far by how they ended, and of the tokens generated for them. */
export interface Counters {
  finished: number
  /** Calls whose caller hung up. */
  cancelled: number
  failed: number
  /** Tokens generated for all calls. */
  completionTokens: number
}

export interface ChildServerOptions {
  readonly engine: Engine
  /** Only who sends this as its bearer token is served. */
  readonly bearer: string
  readonly clock: Clock
  /** One line for the operator; never given a prompt or an answer. */
  readonly log: (line: string) => void
  /** Called when the engine goes on working for a caller who has gone: only a new process helps. */
  readonly onStuck: () => void
}

/** Answers one chat request. The call ends, wherever it stands, as soon as the connection closes. */
export async function answerChat(
  request: ChildChatRequest,
  head: ChunkHead,
  response: ServerResponse,
  options: ChildServerOptions,
  counters: Counters,
): Promise<void> {
  const { engine } = options
  const hangUp = new AbortController()
  response.on('close', () => hangUp.abort())
  if (response.destroyed) hangUp.abort()

  const characters = request.messages.reduce((sum, message) => sum + message.content.length, 0)
  if (characters > engine.contextTokens * TOKEN_CHARACTERS) {
    sendTooLong(response, `${characters} characters`, engine.contextTokens)
    return
  }
  const prompt = engine.render(request.messages)
  const roomTokens = engine.roomTokens(prompt)
  if (roomTokens < 1) {
    sendTooLong(response, `${prompt.tokens.length} tokens`, engine.contextTokens)
    return
  }
  let sequence: Awaited<ReturnType<Engine['sequences']['take']>>
  try {
    sequence = await engine.sequences.take(hangUp.signal)
  } catch (error) {
    if (error instanceof PoolFull) sendError(response, 503, 'overloaded', 'every sequence is busy; try again')
    else counters.cancelled += 1
    return
  }
  const disarm = armWatch(hangUp.signal, options)
  try {
    const maxTokens = Math.min(request.max_tokens ?? roomTokens, roomTokens)
    await stream(request, head, response, { prompt, maxTokens, sequence, signal: hangUp.signal }, options, counters)
  } finally {
    disarm()
    engine.sequences.giveBack(sequence)
  }
}

function sendTooLong(response: ServerResponse, size: string, contextTokens: number): void {
  const message = `the prompt has ${size}, which exceeds the context size of ${contextTokens} tokens`
  sendError(response, 400, 'context_length_exceeded', message, 'messages')
}

interface Work {
  readonly prompt: RenderedPrompt
  readonly maxTokens: number
  readonly sequence: Parameters<Engine['generate']>[0]
  readonly signal: AbortSignal
}

async function stream(
  request: ChildChatRequest,
  head: ChunkHead,
  response: ServerResponse,
  work: Work,
  options: ChildServerOptions,
  counters: Counters,
): Promise<void> {
  const withUsage = request.stream_options?.include_usage === true
  const begin = () => {
    // Not before there is something to say: until then a failure can be answered with a status.
    if (response.headersSent) return
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
    response.write(chunkEvent(head, { role: 'assistant', content: '' }, null, null))
  }
  let countedTokens = 0
  const count = (completionTokens: number) => {
    counters.completionTokens += completionTokens - countedTokens
    countedTokens = completionTokens
  }
  const onPiece = ({ kind, text, usage }: Piece) => {
    count(usage.completionTokens)
    if (work.signal.aborted) return
    begin()
    const delta = kind === 'text' ? { content: text } : { reasoning_content: text }
    response.write(chunkEvent(head, delta, null, withUsage ? usage : null))
    if (response.writableLength > MAXIMUM_UNREAD_BYTES) response.destroy()
  }
  try {
    const finished = await options.engine.generate(work.sequence, {
      prompt: work.prompt,
      maxTokens: work.maxTokens,
      temperature: request.temperature ?? null,
      signal: work.signal,
      onPiece,
    })
    count(finished.usage.completionTokens)
    begin()
    response.write(chunkEvent(head, {}, finished.reason, null))
    if (withUsage) response.write(usageEvent(head, finished.usage))
    response.end(DONE_EVENT)
    counters.finished += 1
  } catch (error) {
    if (work.signal.aborted) {
      counters.cancelled += 1
      return
    }
    counters.failed += 1
    options.log(`generating failed: ${error instanceof Error ? error.message : 'unknown'}`)
    if (response.headersSent) response.end(childErrorEvent('the engine failed'))
    else sendError(response, 500, 'internal_error', 'the engine failed; try again')
  }
}

/** Watches that the engine lets go of a call whose caller has left. The result ends the watch. */
export function armWatch(signal: AbortSignal, { clock, onStuck }: ChildServerOptions): () => void {
  let cancel = () => {}
  const arm = () => {
    cancel = clock.after(STUCK_AFTER_MS, onStuck)
  }
  signal.addEventListener('abort', arm, { once: true })
  if (signal.aborted) arm()
  return () => {
    signal.removeEventListener('abort', arm)
    cancel()
  }
}
