/** Answers every request: finds its route, and serves what has none. */

import { withOrigins } from '../http/crossOrigin.ts'
import { publicDocumentsOf } from '../http/documents.ts'
import { envelopeOf, NO_SUCH_PATH, refusalResponse, unknownPathResponse } from '../http/envelopes.ts'
import { answerHead } from '../http/head.ts'
import { serveOperators, serveRoute } from '../http/middleware/serve.ts'
import type { KeptAnswers } from '../http/onceForKey.ts'
import type { PipelineDependencies, Serve } from '../http/pipeline.ts'
import { ACCOUNT, patternOf, type Route } from '../http/route.ts'
import { type RouteEntry, RouteTable, splitUrl } from '../http/routeTable.ts'
import type { Peer } from '../infra/httpServer.ts'
import { refusal } from '../lib/errors.ts'
import { html, htmlPage } from '../lib/html.ts'
import { requestIdOf } from '../lib/requestId.ts'

export interface RouterDependencies {
  readonly pipeline: PipelineDependencies
  readonly kept: KeptAnswers
  /** Those that are served, in the order of the description. A route without a description is not in it. */
  readonly routes: readonly Route[]
  /** Origins whose pages may read the answers of /v1 (E19). */
  readonly corsOrigins: readonly string[]
}

/** Builds the function that answers every request. */
export function createRouter(
  dependencies: RouterDependencies,
): (request: Request, connection: Peer) => Promise<Response> {
  const { pipeline, kept, routes, corsOrigins } = dependencies
  const table = new RouteTable<Serve>()
  /** Of paths that operators alone hear of. */
  const wrongMethods = new Map<string, (found: RouteEntry<Serve>) => Serve>()
  for (const route of routes) {
    const path = patternOf(route)
    table.add(route.method, path, serveRoute(pipeline, kept, route))
    if (route.access.kind === 'session' && route.access.forOperators)
      wrongMethods.set(path, (found) =>
        serveOperators(pipeline, `OTHER ${path}`, ({ requestId }) => methodNotAllowed(found, requestId)),
      )
  }
  for (const [path, document] of publicDocumentsOf(routes, pipeline, pipeline.sessions?.cookie))
    table.add('GET', path, document)

  const answer = async (request: Request, method: string, connection: Peer): Promise<Response> => {
    const { path, query } = splitUrl(request.url)
    const found = table.find(path)
    const serve = found?.methods.get(method)
    if (found && serve) return serve(request, { ...found, query }, connection)
    const refuseMethod = found && wrongMethods.get(found.path)
    if (found && refuseMethod) return refuseMethod(found)(request, { ...found, query }, connection)
    const requestId = requestIdOf(request.headers.get('X-Request-Id'), pipeline.random)
    if (found !== null) return methodNotAllowed(found, requestId)
    return pipeline.sessions !== undefined && isForPage(path, request)
      ? noSuchPage(requestId)
      : noSuchPath(path, requestId)
  }
  return withOrigins(corsOrigins, pipeline.random, (request, connection) =>
    request.method === 'HEAD'
      ? answerHead(() => answer(request, 'GET', connection), pipeline.clock.now())
      : answer(request, request.method, connection),
  )
}

/** Returns whether a browser asks for a page beneath /account. */
function isForPage(path: string, { headers }: Request): boolean {
  return path.startsWith(`${ACCOUNT}/`) && /\btext\/html\b/.test(headers.get('Accept') ?? '')
}

function noSuchPage(requestId: string): Response {
  const body = html`<p>There is no page at this address. Go to <a href="/account">your account</a>.</p>`
  const page = htmlPage('No such page', body, { status: 404 })
  page.headers.set('X-Request-Id', requestId)
  return page
}

const USE_CHAT = 'Send the conversation as messages to POST /v1/chat/completions.'

/** Interfaces of others that clients ask for, by the first part of their path beneath /v1, with the one to use here. */
const OFFERED_INSTEAD: ReadonlyMap<string, string> = new Map([
  ['responses', `This server does not offer the Responses API. ${USE_CHAT}`],
  ['completions', `This server does not offer completions of a bare prompt. ${USE_CHAT}`],
  ['messages', `This server does not offer the Messages API. ${USE_CHAT}`],
])

function noSuchPath(path: string, requestId: string): Response {
  const [, first = ''] = /^\/v1\/([a-z]+)(?:\/|$)/.exec(path) ?? []
  const instead = OFFERED_INSTEAD.get(first)
  const refused = instead === undefined ? NO_SUCH_PATH : refusal('not_found', instead)
  return envelopeOf(path) === 'B' ? refusalResponse(refused, 'B', requestId) : unknownPathResponse(refused, requestId)
}

function methodNotAllowed({ path, methods }: RouteEntry<Serve>, requestId: string): Response {
  const allow = [...methods.keys()].flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ')
  const refused = refusal('method_not_allowed', `This path does not take this method. Allowed: ${allow}.`)
  return refusalResponse(refused, envelopeOf(path), requestId, { Allow: allow })
}
