/** Pages of other sites (E19): the origins that the operator names may read the answers of `/v1`. */

import type { Peer } from '../infra/httpServer.ts'
import { HEADER_BRAND } from '../lib/brand.ts'
import type { RandomBytes } from '../lib/ids.ts'
import { requestIdOf } from '../lib/requestId.ts'
import { splitUrl } from './routeTable.ts'

type Handle = (request: Request, connection: Peer) => Promise<Response>

/** Headers of our answers that a page may read beside those that the browser shows anyway. */
const EXPOSED = [
  'X-Request-Id',
  'RateLimit-Limit',
  'RateLimit-Remaining',
  'RateLimit-Reset',
  'Retry-After',
  'x-should-retry',
  'Idempotency-Replayed',
  'Operation-Id',
  'Allow',
  'ETag',
  'Accept-Ranges',
  'Content-Range',
  'Content-Disposition',
  `${HEADER_BRAND}-Cost-Microcents`,
  `${HEADER_BRAND}-Queue-Position`,
  `${HEADER_BRAND}-Estimated-Seconds`,
].join(', ')

/** Sent with what a page asks for, unless the browser names the headers that it is going to send. */
const REQUEST_HEADERS = 'Authorization, Content-Type, Idempotency-Key, X-Request-Id'

/** A list of header names. A browser's is short; a longer one is not repeated. */
const HEADER_NAMES = /^[A-Za-z0-9-]+(?: ?, ?[A-Za-z0-9-]+){0,63}$/
const HEADER_NAMES_CHARACTERS = 2_048

/** A browser asks again after so long. */
const PREFLIGHT_SECONDS = 600

/**
 * Returns `handle` with the headers that let pages of `origins` read what is beneath `/v1`, errors too, and with answers to
 * their `OPTIONS`. Nothing else changes: `/manage` and all other paths get no such header, and a page never sends a cookie
 * with it. With no origin it returns `handle` itself.
 */
export function withOrigins(origins: readonly string[], random: RandomBytes, handle: Handle): Handle {
  if (origins.length === 0) return handle
  const known: ReadonlySet<string> = new Set(origins)
  return async (request, connection) => {
    if (!isOpen(splitUrl(request.url).path)) return handle(request, connection)
    const origin = request.headers.get('Origin')
    const isKnown = origin !== null && known.has(origin)
    const isPreflight = isKnown && request.method === 'OPTIONS'
    const response = isPreflight ? answerPreflight(request, random) : await handle(request, connection)
    const { headers } = response
    // Also for others: a cache must not give one origin the answer that was made for another.
    headers.append('Vary', 'Origin')
    if (isKnown) {
      headers.set('Access-Control-Allow-Origin', origin)
      headers.set('Access-Control-Expose-Headers', EXPOSED)
    }
    return response
  }
}

function isOpen(path: string): boolean {
  return path === '/v1' || path.startsWith('/v1/')
}

/** For any path and method, so that the page can read the 404 or 405 of the request that follows. */
function answerPreflight({ headers }: Request, random: RandomBytes): Response {
  const asked = headers.get('Access-Control-Request-Headers') ?? ''
  const isEchoed = asked.length <= HEADER_NAMES_CHARACTERS && HEADER_NAMES.test(asked)
  return new Response(null, {
    status: 204,
    headers: {
      'X-Request-Id': requestIdOf(headers.get('X-Request-Id'), random),
      'Access-Control-Allow-Methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
      'Access-Control-Allow-Headers': isEchoed ? asked : REQUEST_HEADERS,
      'Access-Control-Max-Age': `${PREFLIGHT_SECONDS}`,
    },
  })
}
