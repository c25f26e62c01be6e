import type { ServerResponse } from 'node:http'
import { writeVectors } from '../vectors/write.ts'
import { armWatch, type ChildServerOptions, type Counters } from './answer.ts'
import { InputTooLong } from './embedder.ts'
import { PoolFull } from './pool.ts'
import { sendError } from './reply.ts'
import type { ChildEmbeddingsRequest } from './wire.ts'

/** As much as the gateway takes. */
const ANSWER_MOST_BYTES = 64 << 20

/** Answers one request for embeddings. It ends, after the input it is at, as soon as the connection closes. */
export async function answerEmbeddings(
  request: ChildEmbeddingsRequest,
  response: ServerResponse,
  options: ChildServerOptions,
  counters: Counters,
): Promise<void> {
  const { engine, log } = options
  const hangUp = new AbortController()
  response.on('close', () => hangUp.abort())
  if (response.destroyed) hangUp.abort()
  const disarm = armWatch(hangUp.signal, options)
  try {
    const { values, dimensions, promptTokens } = await engine.embedder.embed(request.input, hangUp.signal)
    if ((request.dimensions ?? dimensions) !== dimensions) {
      sendError(response, 400, 'invalid_request', `the model's vectors have ${dimensions} numbers`, 'dimensions')
      return
    }
    const usage = { prompt_tokens: promptTokens, total_tokens: promptTokens }
    const after = `,"model":${JSON.stringify(request.model)},"usage":${JSON.stringify(usage)}}`
    const before = '{"object":"list","data":'
    const body = writeVectors({ values, dimensions, format: 'float', before, after, maxBytes: ANSWER_MOST_BYTES })
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length })
    response.end(body)
    counters.finished += 1
  } catch (error) {
    if (hangUp.signal.aborted) {
      counters.cancelled += 1
      return
    }
    if (error instanceof InputTooLong) sendError(response, 400, 'context_length_exceeded', error.message, 'input')
    else if (error instanceof PoolFull) sendError(response, 503, 'overloaded', 'too many calls wait; try again')
    else {
      counters.failed += 1
      log(`embedding failed: ${error instanceof Error ? error.message : 'unknown'}`)
      sendError(response, 500, 'internal_error', 'the engine failed; try again')
    }
  } finally {
    disarm()
  }
}
