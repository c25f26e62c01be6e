import { refusal } from '../../lib/errors.ts'
import { cookieOf } from '../cookie.ts'
import type { Middleware, Sessions } from '../pipeline.ts'

const CROSS_SITE = refusal(
  'cross_site_request',
  'This request comes from a page of another site, so the change is refused. The header Origin must be that of this server.',
)

const NO_TOKEN = refusal(
  'cross_site_request',
  'This change by a session needs the header X-CSRF-Token. GET /manage/v1/session has its value as csrf_token.',
)

/**
 * Refuses with 403 what a page of another site does with the cookie of a session, which a browser adds unasked. The header
 * `Origin` must be that of the public URL; a browser that leaves it out must say `Sec-Fetch-Site: same-origin`. The header
 * `X-CSRF-Token` must have the session's text, which no other site can read. It is for routes that change something. A key
 * passes: no browser adds one by itself.
 */
export function sameOrigin(sessions: Pick<Sessions, 'origin' | 'cookie' | 'csrfToken'> | undefined): Middleware {
  return ({ principal, request: { headers } }) => {
    if (principal.kind !== 'session') return null
    if (sessions === undefined || !isOwnPage(headers, sessions.origin)) return CROSS_SITE
    const token = cookieOf(headers.get('Cookie'), sessions.cookie)
    return token !== null && headers.get('X-CSRF-Token') === sessions.csrfToken(token) ? null : NO_TOKEN
  }
}

/** Returns whether a browser says that a request comes from a page of this origin. */
export function isOwnPage(headers: Headers, origin: string): boolean {
  const sent = headers.get('Origin')
  return sent === null ? headers.get('Sec-Fetch-Site') === 'same-origin' : sent === origin
}
