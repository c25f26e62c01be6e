import { BRAND } from '../lib/brand.ts'
import { ERROR_CATALOGUE, type ErrorCode, errorTypeOf, type Refusal, refusal, statusOf } from '../lib/errors.ts'

/** Which of the interface's two error formats a path answers with (E2). */
export type Envelope = 'A' | 'B'

const B_PATHS = /^\/v1\/(models|chat|embeddings|images|inference|videos)(\/|$)/

/** The envelope of a path, known before anything else about the request. */
export function envelopeOf(path: string): Envelope {
  return B_PATHS.test(path) ? 'B' : 'A'
}

/** Endpoints of envelope B whose wrong fields are 400 `invalid_request` (E5). */
const PLAIN_PATHS = /^\/v1\/(models|embeddings|inference)(\/|$)/

/** The code of a wrong field on this path (E5). */
export function invalidCodeOf(path: string): 'invalid_request' | 'validation_failed' {
  return PLAIN_PATHS.test(path) ? 'invalid_request' : 'validation_failed'
}

/** Envelope A has one code for a body that can't be read or parsed (E6). */
export function inEnvelope(refused: Refusal, envelope: Envelope): Refusal {
  return envelope === 'A' && refused.code === 'invalid_request' ? { ...refused, code: 'validation_failed' } : refused
}

/** Paths that have a code of their own for a body that can't be read (E6). */
const DEPOSIT_PATHS = /^\/v1\/billing\/deposits(\/|$)/

/** The refusal of a body that can't be read or parsed, in the words of its path. */
export function refusalOfBody(refused: Refusal, envelope: Envelope, path: string): Refusal {
  if (refused.code === 'invalid_request' && DEPOSIT_PATHS.test(path)) return { ...refused, code: 'invalid-request' }
  return inEnvelope(refused, envelope)
}

/** The code as the envelope spells it: for two conditions A and B have their own words (E3). */
function codeIn(envelope: Envelope, refused: Refusal): ErrorCode {
  if (envelope === 'A' && refused.code === 'rate_limit_exceeded') return 'rate_limited'
  // The database being gone is B's upstream_unavailable and A's internal_error, both 503 (E14).
  if (envelope === 'A' && refused.code === 'upstream_unavailable') return 'internal_error'
  return refused.code
}

function bodyA(refused: Refusal, requestId: string) {
  const code = codeIn('A', refused)
  return {
    type: `urn:${BRAND}:error:${code}`,
    title: ERROR_CATALOGUE[code].title,
    status: statusOf(refused),
    detail: refused.message,
    code,
    request_id: requestId,
  }
}

/** Envelope B's object, also what an error event of a stream carries. */
function bodyB(refused: Refusal) {
  return {
    error: {
      message: refused.message,
      type: errorTypeOf(statusOf(refused)),
      code: refused.code,
      param: refused.param ?? null,
    },
  }
}

/** An error event of a stream (C2). */
export function errorEvent(refused: Refusal): string {
  return `data: ${JSON.stringify(bodyB(refused))}\n\n`
}

/** A refusal as a response of the path's envelope. */
export function refusalResponse(
  refused: Refusal,
  envelope: Envelope,
  requestId: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const body = envelope === 'A' ? bodyA(refused, requestId) : bodyB(refused)
  return problemResponse(body, statusOf(refused), envelope, requestId, {
    ...(refused.retryAfterSeconds === undefined ? {} : { 'Retry-After': String(refused.retryAfterSeconds) }),
    ...(refused.retryIsUseless === undefined ? {} : { 'x-should-retry': 'false' }),
    ...headers,
  })
}

/**
 * Of a path that no route has, and of routes for operators to everybody else. Both are answered by {@link unknownPathResponse}, without a
 * header or a count that the other lacks: nobody can tell one from the other.
 */
export const NO_SUCH_PATH = refusal(
  'not_found',
  'There is nothing at this path. See /v1/openapi.json and /manage/openapi.json.',
)

/** Answers an unknown path in envelope A, plus B's `error` object, since OpenAI clients show only that (E2). */
export function unknownPathResponse(refused: Refusal, requestId: string): Response {
  return problemResponse({ ...bodyA(refused, requestId), ...bodyB(refused) }, statusOf(refused), 'A', requestId, {})
}

function problemResponse(
  body: object,
  status: number,
  envelope: Envelope,
  requestId: string,
  headers: Readonly<Record<string, string>>,
): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: {
      'Content-Type': envelope === 'A' ? 'application/problem+json' : 'application/json',
      'X-Request-Id': requestId,
      ...headers,
    },
  })
}
