/**
 * What every request passes before its handler, in the order of rule E1: announced length, key, rate, scope, body, JSON.
 * The route (404, 405) comes before all this, in `publicPort.ts`; fields and everything after are the handler's.
 */

import { type Fingerprinted, fingerprintOf } from '../idempotency/fingerprint.ts'
import { type Refusal, Refused, refusal } from '../kernel/errors.ts'
import type { RandomBytes } from '../kernel/ids.ts'
import type { Log } from '../kernel/log.ts'
import type { Clock } from '../kernel/time.ts'
import type { ClientAddress } from '../keys/address.ts'
import type { Authenticate, AuthenticatedKey } from '../keys/authenticate.ts'
import { allows, type Permission } from '../keys/scopes.ts'
import { parseJson, readBody, refuseAnnouncedLength } from './body.ts'
import { type Envelope, envelopeOf, invalidCodeOf, refusalResponse } from './envelopes.ts'
import { isForm, parseForm } from './form.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { RateLimit } from './limits/bucket.ts'
import type { RateLimiter, RateVerdict } from './limits/rateLimit.ts'
import { refuseRate, tellRate } from './limits/wire.ts'
import { requestIdOf } from './requestId.ts'
import { splitUrl } from './router.ts'
import type { Turns } from './turns.ts'

/** What the HTTP server knows about a request beyond the request itself. */
export interface Connection {
  /** The socket's peer. */
  readonly address: string
  /** Seconds without a byte in either direction after which the connection is cut; 0: never. */
  setIdleTimeout(seconds: number): void
}

/** What a request's URL asks for, nothing of its parameters decoded. */
export interface RequestTarget {
  /** Of the route, such as `/v1/videos/{id}`. */
  readonly path: string
  readonly query: string
  readonly parameters: readonly string[]
}

/** A request that may be handled. */
export interface Call {
  readonly request: Request
  readonly requestId: string
  /** The parts of the path that stand for parameters, still percent-encoded. */
  readonly parameters: readonly string[]
  readonly query: URLSearchParams
  readonly key: AuthenticatedKey
  /** The parsed JSON body, or the fields of a form; undefined where the route takes none. */
  readonly body: unknown
  /** Tells the request from any other, where it brings an Idempotency-Key; empty else. */
  readonly fingerprint: Uint8Array
  /** Keeps the request counted as open after its handler has returned, for streams; the result ends that. */
  holdOpen(): () => void
  /** Whether the request would still be let in: not once its key was revoked or has expired. For answers without an end. */
  isStillAllowed(): Promise<boolean>
}

/** A response, which carries `X-Request-Id` already or not, or a refusal. */
export type Answer = Response | Refusal

export type Handle = (call: Call) => Answer | Promise<Answer>

/** What a route asks for before its handler runs. */
export interface Requirements {
  /** `any`: every valid key. */
  readonly permission: Permission | 'any'
  readonly admin?: boolean
  /** `form`: a multipart form or JSON, as the Content-Type says. */
  readonly body?: 'json' | 'form'
  /** The answer may be a large file, whose client may pause while it takes it. */
  readonly isLarge?: true
  /** A GET whose answer goes on: silence is no sign of its client's leaving. */
  readonly isStream?: true
  /** Left out, requests may come without one. */
  readonly idempotencyKey?: 'required'
  /** Query parameters that the route knows; others are refused (E8). */
  readonly query?: readonly string[]
}

export interface PipelineDependencies {
  readonly clock: Clock
  readonly log: Log
  readonly random: RandomBytes
  readonly lifecycle: Lifecycle
  readonly authenticate: Authenticate
  readonly rateLimiter: RateLimiter
  readonly rateLimit: RateLimit
  /** Of keys whose organization is new. */
  readonly newRateLimit: RateLimit
  readonly clientAddress: ClientAddress
  readonly bodyLimitBytes: number
  readonly turns: Turns
  /** Whether an error means that the database can't be asked at the moment (E14). */
  readonly isDatabaseAway: (error: unknown) => boolean
  readonly onAnswered?: (route: string, status: number, milliseconds: number) => void
}

const STOPPING = refusal('upstream_unavailable', 'This server is stopping. Nothing was done; try again.', {
  retryAfterSeconds: 1,
})

const BROKEN = refusal(
  'internal_error',
  'Something failed here, unexpectedly. It has been logged with this request id.',
)

const TWO_HOSTS = refusal('invalid_request', 'The request has two Host headers; send one.')

/**
 * A client that takes nothing of its answer for this long, or asks nothing more on its connection, is cut off: the answer
 * stays in memory for as long. The server cuts a few seconds later. Streams have the same rule, in `eventStream.ts`.
 */
const STALLED_CLIENT_SECONDS = 60

/** Wraps a handler in everything that stands before and around it. `name` labels it in metrics and logs. */
export function pipeline(dependencies: PipelineDependencies, name: string, needs: Requirements, handle: Handle) {
  const { clock, log, random, lifecycle } = dependencies

  return async (request: Request, target: RequestTarget, connection: Connection): Promise<Response> => {
    const { path, parameters } = target
    const startedAt = clock.monotonicMs()
    const envelope = envelopeOf(path)
    const requestId = requestIdOf(request.headers.get('X-Request-Id'), random)
    if (!lifecycle.isAdmitting()) return refusalResponse(STOPPING, envelope, requestId, { Connection: 'close' })
    const leave = lifecycle.enter()
    if (needs.isLarge === true) connection.setIdleTimeout(STALLED_CLIENT_SECONDS)
    let held = false
    const close = () => {
      if (needs.body !== undefined) connection.setIdleTimeout(STALLED_CLIENT_SECONDS)
      leave()
    }
    const holdOpen = () => {
      held = true
      return close
    }
    let response: Response
    let rate: RateVerdict | null = null
    try {
      const caller = await identify(dependencies, request, connection, envelope)
      if (!isRefusal(caller)) rate = caller.rate
      const prepared = isRefusal(caller)
        ? caller
        : await prepare(dependencies, needs, caller, request, target, connection, envelope)
      const answer = isRefusal(prepared)
        ? prepared
        : await handle({
            request,
            requestId,
            parameters,
            holdOpen,
            isStillAllowed: () => isStillAllowed(dependencies, needs, request, connection),
            ...prepared,
          })
      response = answer instanceof Response ? answer : refusalResponse(answer, envelope, requestId)
    } catch (error) {
      response = refusalResponse(explain(dependencies, error, name, requestId), envelope, requestId)
    } finally {
      if (!held) close()
    }
    if (!response.headers.has('X-Request-Id')) response.headers.set('X-Request-Id', requestId)
    if (rate !== null) tellRate(response.headers, rate)
    const elapsedMs = clock.monotonicMs() - startedAt
    dependencies.onAnswered?.(name, response.status, elapsedMs)
    log.debug({ route: name, status: response.status, requestId, elapsedMs: Math.round(elapsedMs) }, 'answered')
    return response
  }
}

/** Who sent a request, and what their rate limit says of it. */
interface Caller {
  readonly key: AuthenticatedKey
  readonly rate: RateVerdict
}

async function identify(
  dependencies: PipelineDependencies,
  request: Request,
  connection: Connection,
  envelope: Envelope,
): Promise<Caller | Refusal> {
  const { authenticate, clientAddress, bodyLimitBytes, rateLimiter, clock } = dependencies
  const { headers } = request
  // A header that came twice arrives joined: of two hosts, a proxy in front may have meant the other one.
  if (headers.get('Host')?.includes(',')) return inEnvelope(TWO_HOSTS, envelope)
  if (request.method !== 'GET') {
    const tooLong = refuseAnnouncedLength(headers, bodyLimitBytes)
    if (tooLong) return tooLong
  }
  // Asked for only when the key is not known already: finding the peer's address costs more than finding the key.
  const address = () => clientAddress(connection.address, headers.get('X-Forwarded-For'))
  const checking = authenticate(headers.get('Authorization'), address)
  const authenticated = checking instanceof Promise ? await checking : checking
  if (!authenticated.ok) return authenticated.refusal
  const key = authenticated.value
  const isNew = key.newUntilMs !== null && clock.now() < key.newUntilMs
  const taking = rateLimiter.take(key.id, isNew ? dependencies.newRateLimit : dependencies.rateLimit)
  return { key, rate: taking instanceof Promise ? await taking : taking }
}

/** A key that can't be looked up at the moment was good when it last could. */
async function isStillAllowed(
  { authenticate, clientAddress }: PipelineDependencies,
  needs: Requirements,
  { headers }: Request,
  connection: Connection,
): Promise<boolean> {
  const address = () => clientAddress(connection.address, headers.get('X-Forwarded-For'))
  const again = await authenticate(headers.get('Authorization'), address)
  return again.ok ? refuseScope(again.value, needs) === null : again.refusal.code !== 'invalid_api_key'
}

async function prepare(
  { bodyLimitBytes, turns }: PipelineDependencies,
  needs: Requirements,
  { key, rate }: Caller,
  request: Request,
  target: RequestTarget,
  connection: Connection,
  envelope: Envelope,
): Promise<Pick<Call, 'key' | 'body' | 'query' | 'fingerprint'> | Refusal> {
  const { headers } = request
  const refused = refuseRate(rate) ?? refuseScope(key, needs)
  if (refused) return refused

  let body: unknown
  let fingerprint: Uint8Array = NO_BYTES
  if (needs.body !== undefined) {
    const bytes = await readBody(request, bodyLimitBytes)
    if (!bytes.ok) return inEnvelope(bytes.refusal, envelope)
    // Silence is no sign of anything while the handler works: it has deadlines of its own.
    connection.setIdleTimeout(0)
    const contentType = needs.body === 'form' ? headers.get('Content-Type') : null
    const form = isForm(contentType) ? await parseForm(bytes.value, contentType) : null
    const parsing = form ?? parseJson(bytes.value, turns)
    const parsed = parsing instanceof Promise ? await parsing : parsing
    if (!parsed.ok) return inEnvelope(parsed.refusal, envelope)
    body = parsed.value
    if (headers.has('Idempotency-Key')) fingerprint = fingerprintFor(request, form?.ok ? form.value : bytes.value)
  } else if (headers.has('Idempotency-Key')) fingerprint = fingerprintFor(request, NO_BYTES)
  if (needs.isStream) connection.setIdleTimeout(0)
  const query = target.query === '' ? NO_QUERY : new URLSearchParams(target.query)
  const refusedQuery = refuseQuery(query, needs.query ?? [], target.path)
  return refusedQuery ?? { key, body, query, fingerprint }
}

const NO_BYTES = new Uint8Array()

/** Over the path as it was sent: that of the route is the same for every id in it. */
function fingerprintFor({ method, url }: Request, body: Fingerprinted['body']): Uint8Array {
  return fingerprintOf({ method, ...splitUrl(url), body })
}

function refuseScope(key: AuthenticatedKey, needs: Requirements): Refusal | null {
  if (needs.permission !== 'any' && !allows(key.scopes, needs.permission)) {
    const [resource, level] = needs.permission.split(':')
    return refusal('insufficient_scope', `This key may not do this: it needs the scope '${resource}' at '${level}'.`)
  }
  if (needs.admin && !key.admin) {
    return refusal('insufficient_scope', "This key may not do this: it needs an organization admin's key.")
  }
  return null
}

/** Envelope A has one code for a body that can't be read or parsed (E6). */
function inEnvelope(refused: Refusal, envelope: Envelope): Refusal {
  return envelope === 'A' && refused.code === 'invalid_request' ? { ...refused, code: 'validation_failed' } : refused
}

const NO_QUERY = new URLSearchParams()

/** What the route does not know (E8), and what would be read in one way here and in another elsewhere. */
function refuseQuery(query: URLSearchParams, known: readonly string[], path: string): Refusal | null {
  for (const name of query.keys()) {
    const param = name.slice(0, 64)
    if (!known.includes(name)) {
      const allowed = known.length === 0 ? 'it takes none' : `it takes ${known.join(', ')}`
      const message = `The query parameter '${param}' is not known here: ${allowed}.`
      return refusal(envelopeOf(path) === 'A' ? 'validation_failed' : 'unsupported_parameter', message, { param })
    }
    if (query.getAll(name).length > 1) {
      return refusal(invalidCodeOf(path), `The query parameter '${param}' is given more than once; give it once.`, {
        param,
      })
    }
  }
  return null
}

function isRefusal(value: object): value is Refusal {
  return 'code' in value
}

function explain(
  { log, isDatabaseAway }: PipelineDependencies,
  error: unknown,
  route: string,
  requestId: string,
): Refusal {
  if (error instanceof Refused) return error.refusal
  if (isDatabaseAway(error)) {
    log.warn({ err: error, route, requestId }, 'the database could not be asked')
    return refusal('upstream_unavailable', 'The service cannot do this at this moment; try again shortly.', {
      retryAfterSeconds: 1,
    })
  }
  log.error({ err: error, route, requestId }, 'a request failed unexpectedly')
  return BROKEN
}
