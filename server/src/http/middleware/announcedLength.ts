import { refusalOfBody } from '../envelopes.ts'
import type { Middleware } from '../pipeline.ts'
import { refuseAnnouncedLength } from '../readBody.ts'

/**
 * Refuses a body that says it is longer than `limitBytes` (413), before the caller is looked up and before it is read. A GET may
 * have one too.
 */
export function announcedLength(limitBytes: number): Middleware {
  return ({ request, envelope, target }) => {
    const refused = refuseAnnouncedLength(request.headers, limitBytes)
    return refused && refusalOfBody(refused, envelope, target.path)
  }
}
