/** One paid call whose answer leaves in one piece: its place among the key's open requests, its cost, its kept answer. */

import type { Result } from '../kernel/result.ts'
import type { PaidAnswer, PaidCaller } from '../money/paid.ts'
import { COST_HEADER } from './cost.ts'
import { type Attempt, cancelSignal } from './onceForKey.ts'
import type { OpenRequests } from './openRequests.ts'
import type { Answer, Call } from './pipeline.ts'

const JSON_TYPE = 'application/json'

/** Calls `pay`, whose signal ends with the client's connection, and writes its answer out. */
export async function wholeAnswer(
  call: Call,
  attempt: Attempt | null,
  openRequests: OpenRequests,
  pay: (caller: PaidCaller, signal: AbortSignal) => Promise<Result<PaidAnswer>>,
): Promise<Answer> {
  const taking = openRequests.take(call.key.id)
  const place = taking instanceof Promise ? await taking : taking
  if (typeof place !== 'function') return place
  const leave = call.holdOpen()
  try {
    const { organizationId, id: keyId } = call.key
    const caller = attempt === null ? {} : { keep: keeperOf(attempt) }
    const answered = await pay({ organizationId, keyId, ...caller }, cancelSignal(call, attempt))
    if (!answered.ok) return answered.refusal
    const { body, costMicrocents } = answered.value
    const headers = { 'Content-Type': JSON_TYPE, 'X-Request-Id': call.requestId, [COST_HEADER]: `${costMicrocents}` }
    return new Response(body, { headers })
  } finally {
    place()
    leave()
  }
}

function keeperOf(attempt: Attempt) {
  return (body: string | Uint8Array) => {
    const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body
    return attempt.keep({ status: 200, contentType: JSON_TYPE, operationId: null, body: bytes })
  }
}
