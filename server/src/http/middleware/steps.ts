/** The steps of each kind of route, in the order in which requests are refused (E1). They are put together once, at start. */

import type { Access } from '../access.ts'
import { isChange, takesIdempotencyKey } from '../access.ts'
import type { Middleware, PipelineDependencies, Requirements, Steps } from '../pipeline.ts'
import { announcedLength } from './announcedLength.ts'
import { askAgain } from './askAgain.ts'
import { withAddress, withKey, withKeyOrSession, withSession } from './authenticate.ts'
import { bodyBytes, dropBytes, emptyBody, formBody, jsonBody, uncompressed, withIdempotencyKey } from './body.ts'
import { fingerprint } from './fingerprint.ts'
import { keepOpen } from './keepOpen.ts'
import { oneHost } from './oneHost.ts'
import { operatorAlone } from './operator.ts'
import { permission } from './permission.ts'
import { place } from './place.ts'
import { query } from './query.ts'
import { rate } from './rate.ts'
import { sameOrigin } from './sameOrigin.ts'
import { signature } from './signature.ts'

/** As much of a route as its steps follow from. */
export interface SteppedRoute extends Requirements {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly access: Access
}

/** Returns the steps of a route. Throws where the route contradicts itself. */
export function stepsOf(dependencies: PipelineDependencies, route: SteppedRoute): Steps {
  const { method, access } = route
  const limitBytes = Math.min(route.bodyLimitBytes ?? Number.POSITIVE_INFINITY, dependencies.bodyLimitBytes)
  const isChanging = method !== 'GET'
  const head = [oneHost, announcedLength(limitBytes)]
  const tail = [query(route.query ?? [], isChange(route) && hasFields(route), route.isQueryOpen)]
  const body = bodySteps(dependencies, route, limitBytes)

  if (access.kind === 'public') {
    const all = [...head, withAddress(dependencies), rate(dependencies), keepOpen, ...body, ...tail]
    return { all, again: [], isPrivate: false }
  }
  if (access.kind === 'signed') {
    if (route.body !== 'raw') throw new Error('a signed route takes a raw body')
    const verified = [...body, signature(access.verify)]
    const all = [...head, withAddress(dependencies), rate(dependencies), keepOpen, ...verified, ...tail]
    return { all, again: [], isPrivate: false }
  }
  const anyCaller = {
    apiKey: withKey,
    session: withSession,
    apiKeyOrSession: withKeyOrSession,
  }[access.kind](dependencies)
  const isForOperators = access.kind === 'session' && access.forOperators === true
  const caller = isForOperators ? operatorAlone(anyCaller) : anyCaller
  // That there is such a path is for operators alone to know (E1).
  const first = isForOperators ? [caller, ...head] : [...head, caller]
  const origin = isChanging && access.kind !== 'apiKey' ? [sameOrigin(dependencies.sessions)] : []
  const allowed = permission(access)
  const again = [caller, allowed]
  const asked = body.length > 0 ? [askAgain(dependencies, again)] : []
  const places = route.takesPlace === true ? [place(dependencies.openRequests)] : []
  return {
    all: [...first, rate(dependencies), ...origin, allowed, keepOpen, ...places, ...body, ...asked, ...tail],
    again,
    isPrivate: true,
  }
}

/** Returns whether the body of a request is looked at: the faults of its fields are told with those of the query (E17). */
function hasFields({ body, ignoresBody }: SteppedRoute): boolean {
  return body !== 'raw' && ignoresBody !== true
}

function bodySteps(dependencies: PipelineDependencies, route: SteppedRoute, limitBytes: number): Middleware[] {
  const bytes = bodyBytes(dependencies, limitBytes)
  const once = takesIdempotencyKey(route) ? [fingerprint(route.body)] : []
  switch (route.body) {
    case 'json':
      return [bytes, jsonBody(dependencies, route.isBodyOptional), ...once, dropBytes]
    case 'form':
      return [bytes, formBody(dependencies, isChange(route)), ...once, dropBytes]
    case 'raw':
      return [uncompressed, bytes, ...once]
    default:
      if (isChange(route) && route.ignoresBody !== true) return [bytes, emptyBody(dependencies), ...once, dropBytes]
      return takesIdempotencyKey(route) ? [withIdempotencyKey(bytes), ...once, dropBytes] : []
  }
}
