/** One paid call whose answer leaves in one piece: its place among the key's open requests, its cost, its kept answer. */

import { type ByteBudget, LARGE_BYTES, type Room } from '../kernel/byteBudget.ts'
import type { Result } from '../kernel/result.ts'
import type { PaidAnswer, PaidCaller } from '../paid/caller.ts'
import { COST_HEADER } from './cost.ts'
import { type Attempt, cancelSignal } from './onceForKey.ts'
import type { OpenRequests } from './openRequests.ts'
import type { Answer, Call } from './pipeline.ts'

const JSON_TYPE = 'application/json'

/** Of a large answer, what is given to its connection at a time. */
const SLICE_BYTES = 256 << 10

/** What such a call takes while it lasts. */
interface Places {
  readonly openRequests: OpenRequests
  /** Where large answers are held, from the upstream's first byte to the client's last. */
  readonly memory: ByteBudget
}

/** Calls `pay`, whose signal ends with the client's connection, and writes its answer out. */
export async function wholeAnswer(
  call: Call,
  attempt: Attempt | null,
  { openRequests, memory }: Places,
  pay: (caller: PaidCaller, signal: AbortSignal, room: Room) => Promise<Result<PaidAnswer>>,
): Promise<Answer> {
  const taking = openRequests.take(call.key.id)
  const place = taking instanceof Promise ? await taking : taking
  if (typeof place !== 'function') return place
  const leave = call.holdOpen()
  const room = memory.open()
  let isLeaving = false
  try {
    const { organizationId, id: keyId } = call.key
    const traceparent = call.request.headers.get('traceparent')
    const keep = attempt === null ? {} : { keep: keeperOf(attempt) }
    const answered = await pay({ organizationId, keyId, traceparent, ...keep }, cancelSignal(call, attempt), room)
    if (!answered.ok) return answered.refusal
    const { body, costMicrocents } = answered.value
    const headers = { 'Content-Type': JSON_TYPE, 'X-Request-Id': call.requestId, [COST_HEADER]: `${costMicrocents}` }
    const bytes = bytesOf(body)
    if (bytes <= LARGE_BYTES) return new Response(joined(body), { headers })
    room.set(bytes)
    isLeaving = true
    return new Response(
      inSlices(body, () => room.close()),
      { headers },
    )
  } finally {
    if (!isLeaving) room.close()
    place()
    leave()
  }
}

const bytesOf = (pieces: PaidAnswer['body']) => pieces.reduce((sum, { byteLength }) => sum + byteLength, 0)

/** Given out as fast as the client takes it; `onEnd` is told once, when all of it has left or the client has. */
function inSlices(pieces: PaidAnswer['body'], onEnd: () => void): ReadableStream<Uint8Array> {
  const left = [...pieces]
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const first = left.shift()
        if (first === undefined) {
          onEnd()
          controller.close()
          return
        }
        if (first.byteLength > SLICE_BYTES) left.unshift(first.subarray(SLICE_BYTES))
        controller.enqueue(first.subarray(0, SLICE_BYTES))
      },
      cancel() {
        left.length = 0
        onEnd()
      },
    },
    { highWaterMark: 0 },
  )
}

function keeperOf(attempt: Attempt) {
  return (body: PaidAnswer['body']) =>
    attempt.keep({ status: 200, contentType: JSON_TYPE, operationId: null, body: joined(body) })
}

function joined(pieces: PaidAnswer['body']): Uint8Array<ArrayBuffer> {
  const [first] = pieces
  return first !== undefined && pieces.length === 1 ? first : Buffer.concat(pieces)
}
