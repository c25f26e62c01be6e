/** The one way in which requests that change something are carried out once for each Idempotency-Key. */

import { type Refusal, refusal } from '../lib/errors.ts'
import { type Result, refused } from '../lib/result.ts'
import { invalidCodeOf } from './envelopes.ts'
import { STREAM_HEADERS } from './eventStream.ts'
import { together } from './faults.ts'
import { KEY_LIMIT } from './idempotency/answer.ts'
import type { Attempt, Attempts } from './idempotency/attempts.ts'
import type { Answer, Handle, Requirements, RouteRequest } from './pipeline.ts'
import type { ApiKeyPrincipal, KeyOrSession } from './principal.ts'
import { type ReplayDependencies, replay } from './replay.ts'
import { splitUrl } from './routeTable.ts'
import type { EndAnswer } from './stalledClient.ts'

/**
 * Does the work that was asked for. `attempt` is null for a request without a key. Work that changes the database
 * keeps its answer through `attempt`, in the same transaction. Any other whole answer of status 2xx is kept after the
 * work has returned. Where the work is refused or throws, as when that transaction does not commit, the answer is given up and the
 * key comes free; an answer that was committed nonetheless stays. A handler that holds the call open beyond its return must have
 * kept the answer when it ends that, or the key is freed.
 */
export type Work = (attempt: Attempt | null) => Answer | Promise<Answer>

/** Validates the fields of a request, and nothing else; gives the work that it asks for. */
export type Prepare<P extends KeyOrSession = ApiKeyPrincipal> = (call: RouteRequest<P>) => Result<Work>

const IN_PROGRESS = refusal(
  'idempotency_conflict',
  'The first request with this Idempotency-Key is still running. Wait for the seconds in Retry-After and send it again.',
  { retryAfterSeconds: 1 },
)

const MISMATCH = refusal(
  'idempotency_mismatch',
  'This Idempotency-Key was used for another request within the last 24 hours. Use a new key for a new request.',
)

const NO_ROOM = refusal(
  'rate_limit_exceeded',
  'There is no room to keep the answer to this request: the kept answers of your organization, or of this server, take all that they may. Nothing was done; send it without the key, or later.',
  { retryAfterSeconds: 60 },
)

/** The attempts of this process, and the way in which kept answers leave again. */
export interface KeptAnswers {
  readonly attempts: Pick<Attempts, 'begin'>
  readonly replays: ReplayDependencies
}

export function onceForKey<P extends KeyOrSession>(
  { attempts, replays }: KeptAnswers,
  needs: Requirements,
  prepare: Prepare<P>,
): Handle<P> {
  return async (call) => {
    const idempotencyKey = call.request.headers.get('Idempotency-Key')
    if (idempotencyKey === null) {
      const prepared = allFaults(call, prepare(call))
      if (!prepared.ok) return prepared.refusal
      return needs.idempotencyKey === 'required' ? refuseKey(call, MISSING) : prepared.value(null)
    }
    const holding = new Holding()
    const prepared = allFaults(call, prepare({ ...call, holdOpen: () => holding.hold(call.holdOpen()) }))
    if (!prepared.ok) return prepared.refusal
    if (idempotencyKey === '' || idempotencyKey.length > KEY_LIMIT) return refuseKey(call, WRONG_LENGTH)
    const isRequired = needs.idempotencyKey === 'required'
    const begun = await attempts.begin(call.principal, idempotencyKey, call.fingerprint, isRequired)
    if (begun.kind === 'inProgress') return IN_PROGRESS
    if (begun.kind === 'mismatch') return MISMATCH
    if (begun.kind === 'noRoom') return NO_ROOM
    if (begun.kind === 'replay') return replay(replays, call, begun.answer, needs)
    return carryOut(begun.attempt, prepared.value, holding)
  }
}

/** Carries a change out that takes no Idempotency-Key. */
export function withoutKey<P extends KeyOrSession>(prepare: Prepare<P>): Handle<P> {
  return (call) => {
    const prepared = allFaults(call, prepare(call))
    return prepared.ok ? prepared.value(null) : prepared.refusal
  }
}

/**
 * Adds files and query parameters that the route does not know to what validation says of the fields: both in one message where they
 * have one code, else the files and parameters alone (E17).
 */
function allFaults({ unsupported }: Pick<RouteRequest, 'unsupported'>, prepared: Result<Work>): Result<Work> {
  if (unsupported === undefined) return prepared
  return refused(prepared.ok ? unsupported : together(unsupported, prepared.refusal))
}

async function carryOut(attempt: Attempt, work: Work, holding: Holding): Promise<Answer> {
  holding.attempt = attempt
  let isDone = false
  try {
    const answer = await work(attempt)
    isDone = answer instanceof Response
    if (holding.isHeld || attempt.isKept || !(answer instanceof Response) || !answer.ok) return answer
    if (answer.headers.get('Content-Type')?.startsWith(STREAM_HEADERS['Content-Type'])) return answer
    return await keepWhole(attempt, answer)
  } finally {
    if (!isDone) attempt.discard()
    // Before a refusal leaves, so that its client may try again at once.
    if (!holding.isHeld) await attempt.end()
  }
}

/**
 * Returns who makes a paid call: with a key, the call says what becomes of the key when its charge is not known to be posted
 * in time. `isTraced`: its `traceparent` is read.
 */
export function callerOf({ request, principal }: RouteRequest, attempt: Attempt | null, isTraced: boolean) {
  const { organizationId, id: keyId } = principal
  const traceparent = isTraced ? request.headers.get('traceparent') : null
  const isClientGone = () => request.signal.aborted
  const caller = { organizationId, keyId, traceparent, isClientGone }
  if (attempt === null) return caller
  const { discard, awaitOutcome } = attempt
  return { ...caller, key: { discard, awaitOutcome } }
}

/** Notes that the handler goes on after it has returned; the attempt ends with it. */
class Holding {
  attempt: Attempt | null = null
  isHeld = false

  hold(close: EndAnswer): EndAnswer {
    this.isHeld = true
    return (client) => {
      this.isHeld = false
      void this.attempt?.end()
      close(client)
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

const MISSING = 'This request needs the header Idempotency-Key, so that it can be sent again safely; send a new UUID.'
const WRONG_LENGTH = `The header Idempotency-Key must have 1 to ${KEY_LIMIT} characters; a UUID is a good one.`

function refuseKey({ request }: Pick<RouteRequest, 'request'>, message: string): Refusal {
  return refusal(invalidCodeOf(splitUrl(request.url).path), message)
}
