import { takesIdempotencyKey } from '../access.ts'
import { type KeptAnswers, onceForKey, withoutKey } from '../onceForKey.ts'
import { type Handle, type PipelineDependencies, pipeline, type Serve } from '../pipeline.ts'
import type { Route } from '../route.ts'
import { stepsOf } from './steps.ts'

/** Returns the function that answers the requests of a route, its steps put together once. */
export function serveRoute(dependencies: PipelineDependencies, kept: KeptAnswers, route: Route): Serve {
  const handle = 'handle' in route ? route.handle : changeOf(kept, route)
  // The types of `Route` see to it that the handler takes the callers of its access; the steps let nobody else in.
  return pipeline(dependencies, nameOf(route), route, stepsOf(dependencies, route), handle)
}

function changeOf(kept: KeptAnswers, route: Extract<Route, { readonly prepare: unknown }>): Handle<never> {
  return takesIdempotencyKey(route) ? onceForKey<never>(kept, route, route.prepare) : withoutKey<never>(route.prepare)
}

/** The label of a route in metrics and logs: paths beneath /v1 are written without it. */
function nameOf(route: Route): string {
  return `${route.method} ${route.base ?? ''}${route.path}`
}
