/** Answers every request of the public port: finds its route, and serves what has none. */

import { describeService } from './edge/describe.ts'
import { envelopeOf, refusalResponse, unknownPathResponse } from './edge/envelopes.ts'
import { answerHead } from './edge/head.ts'
import { onceForKey } from './edge/onceForKey.ts'
import { type Connection, type PipelineDependencies, pipeline } from './edge/pipeline.ts'
import { requestIdOf } from './edge/requestId.ts'
import type { Route } from './edge/route.ts'
import { type Endpoint, RouteTable, splitUrl } from './edge/router.ts'
import type { Attempts } from './idempotency/attempts.ts'
import { refusal } from './kernel/errors.ts'
import { publicRoutes, type RouteDependencies, routesNotEnabled, servedRoutes } from './routes.ts'
import { manageRoutes } from './webhookRoutes.ts'

export interface PublicPortDependencies extends RouteDependencies {
  readonly edge: PipelineDependencies
  readonly attempts: Attempts
}

/** Where the management interface is. Its envelope is A. */
const MANAGE = '/manage/v1'

const PUBLIC = { title: 'Inference, media generation and billing', base: '/v1' }
const MANAGEMENT = { title: 'Management: what happened, and who was told', base: MANAGE }

/** Answers one request whose route is known. */
type Serve = ReturnType<typeof pipeline>

/** Builds the function that answers every request of the public port. */
export function createRouter(
  dependencies: PublicPortDependencies,
): (request: Request, connection: Connection) => Promise<Response> {
  const { edge, attempts } = dependencies
  const table = new RouteTable<Serve>()
  const add = (base: string, route: Route, name: string) => {
    const handle = 'handle' in route ? route.handle : onceForKey(attempts, route.needs, route.prepare)
    table.add(route.method, `${base}${patternOf(route.path)}`, pipeline(edge, name, route.needs, handle))
  }
  const served = servedRoutes(dependencies)
  for (const route of [...served, ...routesNotEnabled()]) add('/v1', route, `${route.method} ${route.path}`)
  const managed = manageRoutes(dependencies.webhooks)
  for (const route of managed) add(MANAGE, route, `${route.method} ${MANAGE}${route.path}`)
  table.add('GET', '/v1/health', publicPage(edge, { status: 'ok' }))
  table.add('GET', '/v1/openapi.json', publicPage(edge, describeService([...publicRoutes, ...served], PUBLIC)))
  table.add('GET', '/manage/openapi.json', publicPage(edge, describeService(managed, MANAGEMENT)))

  const answer = async (request: Request, connection: Connection): Promise<Response> => {
    const { path, query } = splitUrl(request.url)
    const found = table.find(path)
    const serve = found?.methods.get(request.method)
    if (found && serve) return serve(request, { ...found, query }, connection)
    const requestId = requestIdOf(request.headers.get('X-Request-Id'), edge.random)
    return found === null ? noSuchPath(path, requestId) : methodNotAllowed(found, requestId)
  }
  return (request, connection) =>
    request.method === 'HEAD' ? answerHead(request, (asGet) => answer(asGet, connection)) : answer(request, connection)
}

/** A page that needs no key and never changes. */
function publicPage({ random }: PipelineDependencies, body: object): Serve {
  const text = JSON.stringify(body)
  return async (request) => {
    const requestId = requestIdOf(request.headers.get('X-Request-Id'), random)
    return new Response(text, { headers: { 'Content-Type': 'application/json', 'X-Request-Id': requestId } })
  }
}

function noSuchPath(path: string, requestId: string): Response {
  const refused = refusal(
    'not_found',
    'There is nothing at this path. Every path begins with /v1; see /v1/openapi.json.',
  )
  return envelopeOf(path) === 'B' ? refusalResponse(refused, 'B', requestId) : unknownPathResponse(refused, requestId)
}

function methodNotAllowed({ path, methods }: Endpoint<Serve>, requestId: string): Response {
  const allow = [...methods.keys()].flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ')
  const refused = refusal('method_not_allowed', `This path takes ${allow}.`)
  return refusalResponse(refused, envelopeOf(path), requestId, { Allow: allow })
}

/** A path of the description in the table. Model ids hold slashes, so they take the rest of the path. */
function patternOf(path: string): string {
  return path === '/models/{id}' ? '/models/{id...}' : path
}
