/**
 * Stands around every handler: counts the request as open, asks the steps of its route one after another, calls the handler,
 * and writes whatever comes of it. `middleware/steps.ts` has the steps and their order; the route (404, 405) comes before all
 * this, in `app/router.ts`.
 */

import { IDLE_TIMEOUT_SECONDS, type Peer } from '../infra/httpServer.ts'
import type { ClientAddress } from '../lib/clientAddress.ts'
import { type Refusal, refusal } from '../lib/errors.ts'
import type { RandomBytes } from '../lib/ids.ts'
import type { Log } from '../lib/log.ts'
import { requestIdOf } from '../lib/requestId.ts'
import { type Clock, SECOND_MS } from '../lib/time.ts'
import type { BodyDeadlines } from './bodyDeadline.ts'
import type { BodyWork } from './bodyWork.ts'
import { type Envelope, envelopeOf, NO_SUCH_PATH, refusalResponse, unknownPathResponse } from './envelopes.ts'
import { explain } from './explain.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { BodyMemory, BodyReservation } from './limits/bodyMemory.ts'
import type { RateLimit } from './limits/bucket.ts'
import type { LeavePlace, OpenRequests } from './limits/openRequests.ts'
import type { OrganizationTurns } from './limits/organizationTurns.ts'
import type { RateLimiter, RateVerdict } from './limits/rateLimit.ts'
import { tellRate } from './limits/wire.ts'
import type { OpenCalls } from './openCalls.ts'
import type { ApiKeyPrincipal, Authenticate, AuthenticateSession, Principal, PublicPrincipal } from './principal.ts'
import { refuseEnded } from './refuseEnded.ts'
import { type EndAnswer, STALLED_CLIENT_MS } from './stalledClient.ts'

/** The target of a request's URL. */
export interface RequestTarget {
  /** Of the route, such as `/v1/videos/{id}`. */
  readonly path: string
  readonly query: string
  readonly parameters: readonly string[]
}

/** A request that may be handled. `P` are the callers that the access of its route lets in. */
export interface RouteRequest<P extends Principal = ApiKeyPrincipal> {
  readonly request: Request
  readonly connection: Peer
  readonly requestId: string
  /** The parts of the path that stand for parameters, decoded. */
  readonly parameters: readonly string[]
  readonly query: URLSearchParams
  /** The refusal of files, of query parameters, and of fields where there are none, to be told with what is wrong with the fields. */
  readonly unsupported?: Refusal
  readonly principal: P
  /** The parsed JSON body, or the fields of a form; undefined where the route takes neither. */
  readonly body: unknown
  /** The body of a `raw` route as it came; empty for other routes. */
  readonly bytes: Uint8Array<ArrayBuffer>
  /** Tells the request from any other, where it brings an Idempotency-Key; empty else. */
  readonly fingerprint: Uint8Array
  /**
   * Keeps the request counted as open after its handler has returned, for streams; the result ends that. A client that takes nothing
   * more is cut off then.
   */
  holdOpen(): EndAnswer
  /** Says that nobody pays for the answer, although its status is that of a success. */
  noteUnpaid(): void
  /** The calls under way in this process. */
  readonly openCalls: OpenCalls
  /**
   * False once the caller's key is revoked or has expired, or its organization is another. Answers without an end ask it now and then.
   */
  isStillAllowed(): Promise<boolean>
}

/** A response, which carries `X-Request-Id` already or not, or a refusal. */
export type Answer = Response | Refusal

export type Handle<P extends Principal = ApiKeyPrincipal> = (call: RouteRequest<P>) => Answer | Promise<Answer>

/** The requirements of a route on its request, beside who may call it. */
export interface Requirements {
  /** `form`: a multipart form or JSON, as the Content-Type says. `raw`: bytes as they came. Left out: it has no fields. */
  readonly body?: 'json' | 'form' | 'raw'
  /** An empty body counts as `{}`. */
  readonly isBodyOptional?: true
  /** It passes over its body, which is read for the fingerprint alone (D4). Any other change without a `body` refuses fields (E6). */
  readonly ignoresBody?: true
  /** The most bytes of a body, where it is less than the limit of all routes. */
  readonly bodyLimitBytes?: number
  /** It is charged for at once, and its answers say what they cost: a replay says 0. */
  readonly isPaid?: true
  /** It takes a place of its key or member from before the body is read until its answer has left (K4). */
  readonly takesPlace?: true
  /** It reads little, and its callers are never told to wait: it takes no turn among the reads of its organization. */
  readonly waitsForNoTurn?: true
  /** Left out, requests may come without one. */
  readonly idempotencyKey?: 'required'
  /** Query parameters that the route knows; others are refused (E8). */
  readonly query?: readonly string[]
  /** Query parameters that the route does not know are passed over, as the protocol of another asks for. */
  readonly isQueryOpen?: true
}

/** A request on its way through the steps of its route, each of which writes down what it finds. */
export interface PendingRequest extends Mutable<RouteRequest<Principal>> {
  readonly target: RequestTarget
  readonly envelope: Envelope
  /** The decision of the caller's rate limit; null while no caller is known. */
  rate: RateVerdict | null
  /** Gives back its place among the open requests of its key; null where it has none. */
  leavePlace: LeavePlace | null
  /** The memory that its body takes; null where none was read. */
  bodyMemory: BodyReservation | null
  /** Its body was not read to its end: the connection is closed after the answer. */
  isCutOff: boolean
  /** Set where nobody pays for the answer, whatever its status says. */
  isUnpaid?: true
  /** By the monotonic clock, milliseconds. */
  readonly startedAtMs: number
}

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] }

/** One step before a handler: null lets the request pass. It gives a promise only where it has to wait. */
export type Middleware = (pending: PendingRequest) => Refusal | null | Promise<Refusal | null>

/** The steps of a route. */
export interface Steps {
  /** All, in the order of refusals (E1). */
  readonly all: readonly Middleware[]
  /** Those that are asked again after a body that took long, and while an answer without an end goes on: the caller, and what it may do. */
  readonly again: readonly Middleware[]
  /** True when its answers are for their caller alone (E18). */
  readonly isPrivate: boolean
}

/** How sessions come, where there are any. */
export interface Sessions {
  /** The name of the cookie. */
  readonly cookie: string
  /** The origin of the public URL, such as `https://gateway.example`: pages of no other may change anything with a cookie. */
  readonly origin: string
  readonly authenticate: AuthenticateSession
  /** Returns the text that a change by the session of a cookie's value must bring in `X-CSRF-Token`. */
  readonly csrfToken: (token: string) => string
}

export interface PipelineDependencies {
  readonly clock: Clock
  readonly log: Log
  readonly random: RandomBytes
  readonly lifecycle: Lifecycle
  readonly authenticate: Authenticate
  /** Left out: nobody signs in, and a route that takes sessions takes its API keys alone. */
  readonly sessions?: Sessions
  readonly rateLimiter: RateLimiter
  readonly rateLimit: RateLimit
  /** Of keys whose organization is new. */
  readonly newAccountRateLimit: RateLimit
  /** Counts the requests that come without a caller of their own, by address. */
  readonly addressRateLimiter: RateLimiter
  /** The open inference requests of each key. */
  readonly openRequests: OpenRequests
  /** Of the GETs of each organization. */
  readonly readTurns: OrganizationTurns
  readonly clientAddress: ClientAddress
  readonly bodyLimitBytes: number
  /** Of all bodies under way. */
  readonly bodyMemory: BodyMemory
  readonly bodyDeadlines: BodyDeadlines
  /** Parts of one multipart form. */
  readonly partsMost: number
  readonly bodyWork: BodyWork
  readonly openCalls: OpenCalls
  /** Returns whether connections have become so many that none is kept for another request. */
  readonly isCrowded: () => boolean
  /** Returns whether an error means that the database can't be asked at the moment (E14). */
  readonly isDatabaseAway: (error: unknown) => boolean
  readonly onAnswered?: (route: string, status: number, milliseconds: number) => void
}

const STOPPING = refusal('upstream_unavailable', 'This server is stopping. Nothing was done; try again.', {
  retryAfterSeconds: 1,
})

export const NO_BYTES = new Uint8Array()
const NO_QUERY = new URLSearchParams()
const NOBODY: PublicPrincipal = { kind: 'public', address: '' }

/** Answers one request whose route is known. */
export type Serve = (request: Request, target: RequestTarget, connection: Peer) => Promise<Response>

/**
 * Wraps a handler in everything that stands before and around it. `name` labels it in metrics and logs. The steps must
 * let in only callers that the handler is written for, as `serveRoute` in `serve.ts` sees to.
 */
export function pipeline(
  dependencies: PipelineDependencies,
  name: string,
  needs: Requirements,
  steps: Steps,
  handle: Handle<never>,
): Serve {
  const { clock, random, lifecycle } = dependencies
  // The one place where the kinds of callers that the steps let in become those that the handler is written for.
  const handleAny = handle as Handle<Principal>

  return async (request, target, connection) => {
    const startedAtMs = clock.monotonicMs()
    const envelope = envelopeOf(target.path)
    const requestId = requestIdOf(request.headers.get('X-Request-Id'), random)
    if (!lifecycle.isAdmitting()) return stopping(envelope, requestId, steps)
    const leave = lifecycle.enter()
    let held = false
    const close: EndAnswer = (client) => {
      if (client === 'stalled') connection.setIdleTimeout(CUT_OFF_SECONDS)
      else limitPauses(pending)
      giveBack(pending)
      leave()
    }
    const pending: PendingRequest = {
      request,
      requestId,
      parameters: target.parameters,
      query: NO_QUERY,
      principal: NOBODY,
      body: undefined,
      bytes: NO_BYTES,
      fingerprint: NO_BYTES,
      holdOpen: () => {
        held = true
        return close
      },
      noteUnpaid: () => void markUnpaid(pending),
      openCalls: dependencies.openCalls,
      isStillAllowed: async () => (await refuseEnded(steps.again, pending)) === null,
      target,
      connection,
      envelope,
      rate: null,
      leavePlace: null,
      bodyMemory: null,
      isCutOff: false,
      startedAtMs,
    }
    let response: Response
    try {
      let answer: Answer | null = null
      for (const step of steps.all) {
        const asked = step(pending)
        answer = asked instanceof Promise ? await asked : asked
        if (answer !== null) break
      }
      if (answer === NO_SUCH_PATH) return unknownPathResponse(answer, requestId)
      answer ??= await handleAny(pending)
      response = answer instanceof Response ? answer : refusalResponse(answer, envelope, requestId)
    } catch (error) {
      response = refusalResponse(explain(dependencies, error, name, requestId), envelope, requestId)
    } finally {
      if (!held) close()
    }
    tellRest(response, pending, steps, dependencies.isCrowded())
    noteAnswer(dependencies, name, needs, response, pending)
    return response
  }
}

/** Returns the answer of a server that takes no more requests. */
function stopping(envelope: Envelope, requestId: string, { isPrivate }: Steps): Response {
  const response = refusalResponse(STOPPING, envelope, requestId, { Connection: 'close' })
  return isPrivate ? forCallerAlone(response) : response
}

function noteAnswer(
  dependencies: PipelineDependencies,
  route: string,
  needs: Requirements,
  response: Response,
  pending: PendingRequest,
): void {
  const { clock, log, onAnswered } = dependencies
  const { status } = response
  const { requestId, startedAtMs } = pending
  noteUnpaid(dependencies, needs, response, pending)
  const elapsedMs = clock.monotonicMs() - startedAtMs
  onAnswered?.(route, status, elapsedMs)
  log.debug({ route, status, requestId, elapsedMs: Math.round(elapsedMs) }, 'answered')
}

function markUnpaid(pending: PendingRequest): void {
  pending.isUnpaid = true
}

/** Bounds the work on large bodies for which nobody pays: refusals, replays, routes that are free. */
function noteUnpaid(
  { bodyWork }: PipelineDependencies,
  { isPaid }: Requirements,
  { ok, headers }: Response,
  { bodyMemory, isUnpaid }: PendingRequest,
): void {
  if (bodyMemory === null || (isPaid === true && ok && isUnpaid === undefined && !headers.has('Idempotency-Replayed')))
    return
  bodyWork.noteUnpaid(bodyMemory.owner, bodyMemory.mostBytes)
}

/** Adds the headers that follow from the way of the request. */
function tellRest(
  response: Response,
  { requestId, rate, isCutOff }: PendingRequest,
  { isPrivate }: Steps,
  isCrowded: boolean,
): void {
  if (!response.headers.has('X-Request-Id')) response.headers.set('X-Request-Id', requestId)
  // A caller that is not known has no limit of its own: a session may have ended while the handler ran.
  if (rate !== null && response.status !== 401) tellRate(response.headers, rate)
  if (isCutOff || isCrowded) response.headers.set('Connection', 'close')
  if (isPrivate) forCallerAlone(response)
}

/**
 * Bounds how long the client may pause from now on; the server cuts it off a few seconds later. Anybody can open connections: without a
 * key, session or signature the bound is the server's own.
 */
function limitPauses({ connection, principal }: PendingRequest): void {
  if (principal === NOBODY) return
  connection.setIdleTimeout(principal.kind === 'public' ? IDLE_TIMEOUT_SECONDS : STALLED_CLIENT_MS / SECOND_MS)
}

/** For a client that has had its time: the least that the server knows. */
const CUT_OFF_SECONDS = 1

/** Gives back what the request had taken on its way: its place and its memory. */
function giveBack(pending: PendingRequest): void {
  pending.leavePlace?.()
  pending.leavePlace = null
  pending.bodyMemory?.close()
}

/** Keeps caches from storing an answer that says nothing else of them, and browsers from taking it for another type (E18). */
function forCallerAlone(response: Response): Response {
  const { headers } = response
  if (!headers.has('Cache-Control')) headers.set('Cache-Control', 'no-store')
  headers.set('X-Content-Type-Options', 'nosniff')
  return response
}
