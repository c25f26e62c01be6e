import { takesIdempotencyKey } from '../access.ts'
import { type KeptAnswers, onceForKey, withoutKey } from '../onceForKey.ts'
import { type Handle, type PipelineDependencies, pipeline, type RouteRequest, type Serve } from '../pipeline.ts'
import type { KeyOrSession } from '../principal.ts'
import type { Route } from '../route.ts'
import { withSession } from './authenticate.ts'
import { operatorAlone } from './operator.ts'
import { stepsOf } from './steps.ts'

/** Returns the function that answers the requests of a route, its steps put together once. */
export function serveRoute(dependencies: PipelineDependencies, kept: KeptAnswers, route: Route): Serve {
  const handle = 'handle' in route ? readOf(dependencies, route) : changeOf(kept, route)
  // The types of `Route` see to it that the handler takes the callers of its access; the steps let nobody else in.
  return pipeline(dependencies, nameOf(route), route, stepsOf(dependencies, route), handle)
}

/** Returns the function that answers operators with `handle`, and everybody else as if there were no such path. */
export function serveOperators(dependencies: PipelineDependencies, name: string, handle: Handle<never>): Serve {
  const caller = operatorAlone(withSession(dependencies))
  return pipeline(dependencies, name, {}, { all: [caller], again: [caller], isPrivate: false }, handle)
}

function changeOf(kept: KeptAnswers, route: Extract<Route, { readonly prepare: unknown }>): Handle<never> {
  return takesIdempotencyKey(route) ? onceForKey<never>(kept, route, route.prepare) : withoutKey<never>(route.prepare)
}

/** The handler of a route that changes nothing of an organization. Reads by one that has an organization take turns. */
function readOf(
  { readTurns }: PipelineDependencies,
  route: Extract<Route, { readonly handle: unknown }>,
): Handle<never> {
  const { access, waitsForNoTurn = false } = route
  if (access.kind === 'public' || access.kind === 'signed' || waitsForNoTurn) return route.handle
  const handle = route.handle as Handle<KeyOrSession>
  return (call: RouteRequest<KeyOrSession>) =>
    readTurns.take(
      call.principal.organizationId,
      () => call.request.signal.aborted,
      () => handle(call),
    )
}

/** The label of a route in metrics and logs: paths beneath /v1 are written without it. */
function nameOf(route: Route): string {
  return `${route.method} ${route.base ?? ''}${route.path}`
}
