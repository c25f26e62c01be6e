/** One paid call whose answer leaves in one piece: its cost, its kept answer, its memory. */

import type { Participant } from '../infra/postgres/database.ts'
import {
  BudgetFull,
  LARGE_BYTES,
  type MemoryReservation,
  NO_MEMORY_MESSAGE,
  NO_MEMORY_RETRY_AFTER_SECONDS,
} from '../lib/byteBudget.ts'
import type { CallSignal } from '../lib/callSignal.ts'
import { type Refusal, refusal } from '../lib/errors.ts'
import type { Result } from '../lib/result.ts'
import { type Clock, SECOND_MS } from '../lib/time.ts'
import { type EarlyEnd, watchCall } from './callEnd.ts'
import { COST_HEADER } from './cost.ts'
import type { KeptAnswer } from './idempotency/answer.ts'
import type { Attempt } from './idempotency/attempts.ts'
import { AT_ONCE_BYTES, inSlices, type Pieces } from './inSlices.ts'
import { JSON_TYPE } from './jsonAnswer.ts'
import { startLeaving } from './leaving.ts'
import { callerOf } from './onceForKey.ts'
import type { Answer, RouteRequest } from './pipeline.ts'

/** Beside the call itself. */
interface WholeOptions {
  /** By which a client is cut off that takes its answer too slowly. */
  readonly clock: Clock
  /**
   * Where a large answer is held, from the provider's first byte to the client's last. Left out: answers are never large, and a call
   * ends at once when it must.
   */
  readonly memory?: MemoryReservation
  /** True when the call's `traceparent` is read. */
  readonly isTraced: boolean
  /** True: its client's leaving ends the call no more than that of one with an Idempotency-Key. */
  readonly outlivesClient?: boolean
}

/** A call whose answer is known and whose price is set. Nothing is charged before `commit`. */
interface Committable {
  readonly costMicrocents: bigint
  /** Charges it, in one transaction with `participants`. Null: the answer may leave; else what leaves in its place. */
  commit(participants?: readonly Participant[]): Promise<{ readonly refusal: Refusal } | null>
  /** Gives the money back where nobody has committed it; `code` says why. */
  release(code: Refusal['code']): void
}

/** JSON: a text, or bytes in pieces. */
export type Body = string | Pieces

/**
 * Calls `pay`, whose signal ends with the client's connection and with the key, writes its answer by `toWire`, charges it together
 * with the answer to be kept, and only then lets it leave. Where `pay` goes on after a hang-up or the end of the key, the call keeps
 * its place and its memory, and counts as open. When the key ends, the answer is its refusal, at once; `pay` is charged. An answer
 * that the kernel may not take whole keeps the call's place until all of it has left (K4).
 */
export function wholeAnswer<T extends { readonly prepared: Committable }>(
  call: RouteRequest,
  attempt: Attempt | null,
  options: WholeOptions,
  pay: (caller: ReturnType<typeof callerOf>, signal: CallSignal) => Promise<Result<T>>,
  toWire: (answer: T) => Body,
): Promise<Answer> {
  const end = watchCall(call, attempt !== null || options.outlivesClient === true, call.request.signal)
  const answering = payAndWrite(call, attempt, options, end, pay, toWire)
  if (options.memory === undefined) return answering
  return Promise.race([answering, new Promise<Refusal>((resolve) => end.onKeyEnded(resolve))])
}

async function payAndWrite<T extends { readonly prepared: Committable }>(
  call: RouteRequest,
  attempt: Attempt | null,
  { clock, memory, isTraced }: WholeOptions,
  end: EarlyEnd,
  pay: (caller: ReturnType<typeof callerOf>, signal: CallSignal) => Promise<Result<T>>,
  toWire: (answer: T) => Body,
): Promise<Answer> {
  const leave = call.holdOpen()
  let isLeaving = false
  try {
    const answered = await pay(callerOf(call, attempt, isTraced), end.signal)
    if (!answered.ok) return end.refusal ?? answered.refusal
    const { prepared } = answered.value
    let body: Body
    let bytes: number
    let givenBackFor: Refusal['code'] = 'internal_error'
    try {
      body = toWire(answered.value)
      bytes = bytesOf(body)
      const hasMemory = memory === undefined || end.refusal !== null || (await takeGrown(memory, bytes, clock))
      // The key may have ended while its answer waited for memory.
      if (end.refusal !== null) {
        await prepared.commit()
        return end.refusal
      }
      if (!hasMemory) {
        givenBackFor = NO_MEMORY.code
        return NO_MEMORY
      }
      const participants = attempt === null ? undefined : await attempt.keep(keptOf(body))
      const unanswered = await prepared.commit(participants)
      if (unanswered !== null) return unanswered.refusal
    } finally {
      prepared.release(givenBackFor)
    }
    // Nobody reads it: its place was taken by the refusal.
    if (end.refusal !== null) return end.refusal
    const headers = {
      'Content-Type': JSON_TYPE,
      'X-Request-Id': call.requestId,
      [COST_HEADER]: `${prepared.costMicrocents}`,
    }
    if (bytes <= AT_ONCE_BYTES) return new Response(typeof body === 'string' ? body : joined(body), { headers })
    memory?.set(bytes > LARGE_BYTES ? bytes : 0)
    isLeaving = true
    const leaving = startLeaving(call, (client) => {
      memory?.close()
      leave(client)
    })
    const pieces = typeof body === 'string' ? [new TextEncoder().encode(body)] : body
    return new Response(inSlices(pieces, clock, leaving), { headers })
  } finally {
    end.close()
    if (!isLeaving) {
      memory?.close()
      leave()
    }
  }
}

/** So long an answer that is ready waits for memory at most: its client waits for it, and it takes memory that is not counted. */
const GROWN_WAIT_MS = 10 * SECOND_MS

const NO_MEMORY = refusal('upstream_unavailable', NO_MEMORY_MESSAGE, {
  retryAfterSeconds: NO_MEMORY_RETRY_AFTER_SECONDS,
})

/**
 * Takes memory, in turn, for a large answer that took none while it was read: it was small then, or made here. Returns false where
 * there is none in time.
 */
async function takeGrown(memory: MemoryReservation, bytes: number, clock: Clock): Promise<boolean> {
  if (bytes <= LARGE_BYTES || memory.bytes > 0) return true
  const waiting = new AbortController()
  const cancelTimer = clock.after(GROWN_WAIT_MS, () => waiting.abort(new BudgetFull('there was no memory in time')))
  try {
    await memory.take(bytes, waiting.signal)
    return true
  } catch (error) {
    if (error instanceof BudgetFull) return false
    throw error
  } finally {
    cancelTimer()
  }
}

function bytesOf(body: Body): number {
  if (typeof body === 'string') return Buffer.byteLength(body)
  return body.reduce((sum, { byteLength }) => sum + byteLength, 0)
}

/** Copies pieces into one, where they are several. */
function joined(pieces: Pieces): Uint8Array<ArrayBuffer> {
  const [first] = pieces
  return first !== undefined && pieces.length === 1 ? first : Buffer.concat(pieces)
}

/** Returns the answer as it is given again. */
function keptOf(body: Body): KeptAnswer {
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : joined(body)
  return { status: 200, contentType: JSON_TYPE, operationId: null, body: bytes }
}
