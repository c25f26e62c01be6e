import type { Middleware } from '../pipeline.ts'
import type { Verify } from '../principal.ts'

/** Requires that `verify` knows the sender. The body was read, and bounded, by a step before: no hash is made of more. */
export function signature(verify: Verify): Middleware {
  return async (pending) => {
    const verified = await verify(pending.request.headers, pending.bytes)
    if (!verified.ok) return verified.refusal
    pending.principal = verified.value
    return null
  }
}
