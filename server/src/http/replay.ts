/** Sends a kept answer again: a large one piece by piece, as fast as its client takes it. */

import { type Refusal, refusal } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import type { Clock } from '../lib/time.ts'
import { COST_HEADER } from './cost.ts'
import { STREAM_HEADERS } from './eventStream.ts'
import { type BodyInPieces, PIECE_BYTES, type ReplayedAnswer } from './idempotency/answer.ts'
import { AT_ONCE_BYTES, atLeastRate, type SliceSource } from './inSlices.ts'
import { startLeaving } from './leaving.ts'
import type { Requirements, RouteRequest } from './pipeline.ts'
import type { KeyOrSession } from './principal.ts'
import type { ReplayMemory } from './replayMemory.ts'

/** A piece is encrypted while it is read, and plain while it leaves. */
const PIECE_MEMORY_BYTES = 2 * PIECE_BYTES

const NO_MEMORY = refusal(
  'upstream_unavailable',
  'There is no memory left to send this kept answer again. Read the answers that are on their way, and send the request again after the seconds in Retry-After.',
  { retryAfterSeconds: 1 },
)

export interface ReplayDependencies {
  readonly clock: Clock
  readonly log: Log
  readonly memory: ReplayMemory
  /** Resolves for one replay after the other: see {@link createTurns}. */
  readonly turn: () => Promise<void>
}

/** So long after a piece the next one is read, of all replays of a process: at most 128 MiB/s, a fifth of a processor. */
export const PIECE_EVERY_MS = 2

/**
 * Returns the turns of all replays of a process: one at once, and each of the others a `pause` after the one before, so that the
 * pieces of many replays do not hold everything else up.
 */
export function createTurns(pause: () => Promise<void>): () => Promise<void> {
  let next = Promise.resolve()
  return () => {
    const turn = next
    next = turn.then(pause)
    return turn
  }
}

/**
 * Returns a kept answer with the headers of its kind. Its request id is the replaying request's; a replay costs nothing, and
 * says so where its first answer said what it cost. Refused (503) when there is no memory for it. A large one counts as open
 * until all of it has left or its client has.
 */
export function replay(
  dependencies: ReplayDependencies,
  call: Pick<RouteRequest<KeyOrSession>, 'principal' | 'holdOpen' | 'openCalls'>,
  { status, contentType, operationId, body }: ReplayedAnswer,
  { isPaid }: Pick<Requirements, 'isPaid'>,
): Response | Refusal {
  const headers: Record<string, string> = { 'Idempotency-Replayed': 'true' }
  if (contentType?.startsWith(STREAM_HEADERS['Content-Type'])) Object.assign(headers, STREAM_HEADERS)
  if (contentType !== null) headers['Content-Type'] = contentType
  if (operationId !== null) headers['Operation-Id'] = operationId
  if (isPaid) headers[COST_HEADER] = '0'
  const isWhole = body instanceof Uint8Array
  if (isWhole && body.byteLength <= AT_ONCE_BYTES) {
    return new Response(body.byteLength === 0 ? null : body, { status, headers })
  }
  const bytes = isWhole ? body.byteLength : PIECE_MEMORY_BYTES
  const giveBack = dependencies.memory.take(call.principal.organizationId, bytes)
  if (giveBack === null) return NO_MEMORY
  const leave = call.holdOpen()
  const leaving = startLeaving(call, (client) => {
    giveBack()
    leave(client)
  })
  const pieces = piecesOf(dependencies, isWhole ? cut(body) : body)
  return new Response(atLeastRate(pieces, dependencies.clock, leaving), { status, headers })
}

/** A body that is in memory, in pieces that leave one after the other. */
function cut(body: Uint8Array<ArrayBuffer>): BodyInPieces {
  return {
    pieces: Math.ceil(body.byteLength / AT_ONCE_BYTES),
    read: async (index) => body.subarray(index * AT_ONCE_BYTES, (index + 1) * AT_ONCE_BYTES),
  }
}

/** Each piece is read when the client has taken the one before. */
function piecesOf({ log, turn }: ReplayDependencies, body: BodyInPieces): SliceSource {
  let next = 0
  let isCancelled = false
  return {
    async next() {
      if (next === body.pieces) return null
      try {
        await turn()
        if (isCancelled) return null
        const piece = await body.read(next)
        next += 1
        return piece
      } catch (error) {
        // The stream breaks off, so that nobody takes it for whole.
        log.warn({ err: error }, 'a kept answer could not be read to its end')
        throw error
      }
    },
    cancel() {
      isCancelled = true
    },
  }
}
