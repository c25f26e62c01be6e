/** The one way in which requests that change something are carried out once for each Idempotency-Key. */

import { KEY_LIMIT, type KeptAnswer } from '../idempotency/answer.ts'
import type { Attempt, Attempts } from '../idempotency/attempts.ts'
import { type Refusal, refusal } from '../kernel/errors.ts'
import type { Result } from '../kernel/result.ts'
import { invalidCodeOf } from './envelopes.ts'
import type { Answer, Call, Handle, Requirements } from './pipeline.ts'
import { splitUrl } from './router.ts'

export type { Attempt } from '../idempotency/attempts.ts'

/**
 * Does what was asked for. `attempt` is null for a request without a key. What has an effect keeps its answer by the
 * attempt, in the transaction of the effect; any other whole answer of status 2xx is kept afterwards. A refusal frees the
 * key. Who holds the call open beyond its return must have kept the answer when it ends that, or the key is freed.
 */
export type Work = (attempt: Attempt | null) => Answer | Promise<Answer>

/** Validates the fields of a request, and nothing else; gives the work that it asks for. */
export type Prepare = (call: Call) => Result<Work>

const IN_PROGRESS = refusal(
  'idempotency_conflict',
  'The first request with this Idempotency-Key is still running. Wait for the seconds in Retry-After and send it again.',
  { retryAfterSeconds: 1 },
)

const MISMATCH = refusal(
  'idempotency_mismatch',
  'This Idempotency-Key was used for another request within the last 24 hours. Use a new key for a new request.',
)

export function onceForKey(attempts: Attempts, needs: Requirements, prepare: Prepare): Handle {
  return async (call) => {
    const idempotencyKey = call.request.headers.get('Idempotency-Key')
    if (idempotencyKey === null) {
      const prepared = prepare(call)
      if (!prepared.ok) return prepared.refusal
      return needs.idempotencyKey === 'required' ? refuseKey(call, MISSING) : prepared.value(null)
    }
    const holding = new Holding()
    const prepared = prepare({ ...call, holdOpen: () => holding.hold(call.holdOpen()) })
    if (!prepared.ok) return prepared.refusal
    if (idempotencyKey === '' || idempotencyKey.length > KEY_LIMIT) return refuseKey(call, WRONG_LENGTH)
    const begun = await attempts.begin(call.key.id, idempotencyKey, call.fingerprint)
    if (begun.kind === 'inProgress') return IN_PROGRESS
    if (begun.kind === 'mismatch') return MISMATCH
    if (begun.kind === 'replay') return replay(begun.answer)
    return carryOut(begun.attempt, prepared.value, holding)
  }
}

async function carryOut(attempt: Attempt, work: Work, holding: Holding): Promise<Answer> {
  holding.attempt = attempt
  try {
    const answer = await work(attempt)
    if (holding.isHeld || attempt.isKept || !(answer instanceof Response) || !answer.ok) return answer
    if (answer.headers.get('Content-Type')?.startsWith('text/event-stream')) return answer
    return await keepWhole(attempt, answer)
  } finally {
    // Before a refusal leaves, so that its client may try again at once.
    if (!holding.isHeld) await attempt.end()
  }
}

/**
 * What cancels the work of a call: its client's leaving. Never of a call with a key: who asks again with it is to get the
 * answer, so that it is made although its first client has left (C3).
 */
export function cancelSignal(call: Call, attempt: Attempt | null): AbortSignal {
  return attempt === null ? call.request.signal : new AbortController().signal
}

/** Whether the handler goes on after it has returned; the attempt ends with it. */
class Holding {
  attempt: Attempt | null = null
  isHeld = false

  hold(close: () => void): () => void {
    this.isHeld = true
    return () => {
      this.isHeld = false
      void this.attempt?.end()
      close()
    }
  }
}

async function keepWhole(attempt: Attempt, response: Response): Promise<Response> {
  const body = new Uint8Array(await response.arrayBuffer())
  await attempt.keepNow({
    status: response.status,
    contentType: response.headers.get('Content-Type'),
    operationId: response.headers.get('Operation-Id'),
    body,
  })
  return new Response(body.byteLength === 0 ? null : body, { status: response.status, headers: response.headers })
}

/** The stored answer. Its request id is the replaying request's; what it cost is not said twice. */
function replay({ status, contentType, operationId, body }: KeptAnswer): Response {
  const headers: Record<string, string> = { 'Idempotency-Replayed': 'true' }
  if (contentType !== null) headers['Content-Type'] = contentType
  if (operationId !== null) headers['Operation-Id'] = operationId
  return new Response(body.byteLength === 0 ? null : new Uint8Array(body), { status, headers })
}

const MISSING = 'This request needs the header Idempotency-Key, so that it can be sent again safely; send a new UUID.'
const WRONG_LENGTH = `The header Idempotency-Key must have 1 to ${KEY_LIMIT} characters; a UUID is a good one.`

function refuseKey({ request }: Call, message: string): Refusal {
  return refusal(invalidCodeOf(splitUrl(request.url).path), message)
}
