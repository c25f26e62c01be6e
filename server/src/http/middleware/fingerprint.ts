import { isForm } from '../form.ts'
import { type Fingerprinted, type FormField, fingerprintOf } from '../idempotency/fingerprint.ts'
import type { Middleware } from '../pipeline.ts'
import { splitUrl } from '../routeTable.ts'

/**
 * Computes what tells the request from any other, where it brings an Idempotency-Key. It is made over the path as it was sent:
 * that of the route is the same for every id in it. Of a form it takes the fields, whose boundary is chance.
 */
export function fingerprint(body: 'json' | 'form' | 'raw' | undefined): Middleware {
  return (pending) => {
    const { request } = pending
    if (!request.headers.has('Idempotency-Key')) return null
    const isFields = body === 'form' && isForm(request.headers.get('Content-Type'))
    const content: Fingerprinted['body'] = isFields ? (pending.body as readonly FormField[]) : pending.bytes
    pending.fingerprint = fingerprintOf({ method: request.method, ...splitUrl(request.url), body: content })
    return null
  }
}
