/** Every route, and what a request must bring to each: the table of contents. `edge/pipeline.ts` has the order of checks. */

import { z } from 'zod'
import { noInstances } from './billing/balance.ts'
import { balance, showBalance } from './billing/http.ts'
import { putSpendingLimit, showSpendingLimit, spendingLimit, spendingLimitRequest } from './billing/limits/http.ts'
import { showSubscription, subscription } from './billing/subscription/http.ts'
import { type CatalogEndpoints, createCatalogEndpoints } from './catalog/http.ts'
import type { Catalog } from './catalog/model.ts'
import { ModelListSchema, ModelSchema, ModelsQuerySchema } from './catalog/schemas.ts'
import type { CompatSettings } from './catalog/settings.ts'
import type { ChatDependencies } from './chat/dependencies.ts'
import { chatCompletionChunk, chatCompletionResponse, chatCompletions, chatRequestSchema } from './chat/http.ts'
import { type DescribedRoute, describeService, errorSchema } from './edge/describe.ts'
import { envelopeOf, refusalResponse, unknownPathResponse } from './edge/envelopes.ts'
import { answerHead } from './edge/head.ts'
import { onceForKey } from './edge/onceForKey.ts'
import { type Connection, type PipelineDependencies, pipeline, type Requirements } from './edge/pipeline.ts'
import { requestIdOf } from './edge/requestId.ts'
import type { Route } from './edge/route.ts'
import { type Endpoint, RouteTable, splitUrl } from './edge/router.ts'
import type { EmbeddingsDependencies } from './embeddings/embed.ts'
import { embeddings, embeddingsRequestSchema, embeddingsResponse } from './embeddings/http.ts'
import type { Attempts } from './idempotency/attempts.ts'
import type { ImagesDependencies } from './images/generate.ts'
import { imagesGenerations, imagesGenerationsRequest, imagesResponse } from './images/http.ts'
import type { Queryable } from './io/postgres/database.ts'
import type { ByteBudget } from './kernel/byteBudget.ts'
import { refusal } from './kernel/errors.ts'
import { refused } from './kernel/result.ts'
import type { Clock } from './kernel/time.ts'
import { inferencePreflight, preflightQuery, showPreflight } from './preflight/http.ts'
import { showUsage, USAGE_PARAMETERS, usagePage, usageQuery } from './usage/http.ts'
import { type VideoRouteDependencies, videoRoutes } from './videoRoutes.ts'
import { manageRoutes, type WebhookRouteDependencies, webhookRoutes } from './webhookRoutes.ts'

export interface RouteDependencies extends VideoRouteDependencies {
  readonly edge: PipelineDependencies
  readonly attempts: Attempts
  /** Where large answers are held. */
  readonly memory: ByteBudget
  readonly compat: CompatSettings
  readonly clock: Clock
  readonly catalog: () => Catalog
  readonly chat: ChatDependencies
  readonly embeddings: EmbeddingsDependencies
  readonly images: ImagesDependencies
  readonly database: Queryable
  readonly webhooks: WebhookRouteDependencies
}

const READ = { permission: 'serverless:read' } as const

function servedRoutes(dependencies: RouteDependencies): Route[] {
  const { edge, clock, catalog, chat, openRequests, memory, compat, database } = dependencies
  const models = createCatalogEndpoints(clock)
  const report = (error: unknown) => edge.log.warn({ err: error }, "a plan's meter could not be read")
  return [
    {
      method: 'GET',
      path: '/models',
      needs: { ...READ, query: ['modality'] },
      handle: (call) => toResponse(models.list(catalog(), call.query, call.request.headers.get('If-None-Match'))),
      describe: {
        operationId: 'listModels',
        summary: 'List the models',
        requestParams: { query: ModelsQuerySchema },
        responses: {
          200: { description: 'The live catalog.', content: { 'application/json': ModelListSchema } },
          304: { description: 'Unchanged since the ETag in If-None-Match.' },
        },
      },
    },
    {
      method: 'GET',
      path: '/models/{id}',
      needs: READ,
      handle: (call) => {
        const [rawId = ''] = call.parameters
        return toResponse(models.retrieve(catalog(), rawId, call.query, call.request.headers.get('If-None-Match')))
      },
      describe: {
        operationId: 'retrieveModel',
        summary: 'Retrieve a model',
        description: 'The id may be an alias, may hold slashes, encoded or not, and may end in `:economy`.',
        requestParams: { path: z.object({ id: z.string().min(1) }) },
        responses: {
          200: { description: 'The model.', content: { 'application/json': ModelSchema } },
          304: { description: 'Unchanged since the ETag in If-None-Match.' },
        },
        refusals: [404],
      },
    },
    {
      method: 'POST',
      path: '/chat/completions',
      needs: { permission: 'serverless:write', body: 'json' },
      prepare: chatCompletions(chat, openRequests, compat),
      describe: {
        operationId: 'createChatCompletion',
        summary: 'Complete a chat',
        description:
          'With `stream: true` the answer is a stream of server-sent events, ended by `data: [DONE]`. An unknown model on a ' +
          'stream, and a failure in mid-stream, arrive as one `{"error": …}` event before it.',
        requestBody: chatRequestSchema(compat),
        responses: {
          200: {
            description: 'The answer, whole or streamed.',
            content: {
              'application/json': chatCompletionResponse,
              'text/event-stream': z.union([chatCompletionChunk, errorSchema]),
            },
          },
        },
        refusals: [402, 404, 502, 504],
      },
    },
    {
      method: 'POST',
      path: '/embeddings',
      needs: { permission: 'serverless:write', body: 'json' },
      prepare: embeddings(dependencies.embeddings, openRequests, memory, compat),
      describe: {
        operationId: 'createEmbeddings',
        summary: 'Turn texts into vectors',
        description: 'Charged by input tokens, rounded up to the next whole cent a request.',
        requestBody: embeddingsRequestSchema(compat),
        responses: { 200: { description: 'The vectors.', content: { 'application/json': embeddingsResponse } } },
        refusals: [402, 404, 502, 504],
      },
    },
    {
      method: 'POST',
      path: '/images/generations',
      needs: { permission: 'serverless:write', body: 'json' },
      prepare: imagesGenerations(dependencies.images, openRequests, memory),
      describe: {
        operationId: 'createImages',
        summary: 'Make images',
        description: 'Charged by image or by megapixel. Nothing is charged for what was not delivered.',
        requestBody: imagesGenerationsRequest,
        responses: { 200: { description: 'The images.', content: { 'application/json': imagesResponse } } },
        refusals: [402, 404, 502, 504],
      },
    },
    ...videoRoutes(dependencies),
    {
      method: 'GET',
      path: '/inference/preflight',
      needs: { ...READ, query: ['model'] },
      handle: showPreflight({ database, clock, log: edge.log, money: chat.money, catalog }),
      describe: {
        operationId: 'getInferencePreflight',
        summary: 'What would happen if a model were called now',
        description: 'Nothing is sent, counted, charged or set aside. A gate that can not be read never blocks.',
        requestParams: { query: preflightQuery },
        responses: { 200: { description: 'The verdict.', content: { 'application/json': inferencePreflight } } },
        refusals: [404],
      },
    },
    {
      method: 'GET',
      path: '/billing/balance',
      needs: { permission: 'billing:read' },
      handle: showBalance(database, noInstances),
      describe: {
        operationId: 'getBalance',
        summary: 'Read the credit balance',
        responses: { 200: { description: 'The balance.', content: { 'application/json': balance } } },
      },
    },
    {
      method: 'GET',
      path: '/billing/subscription',
      needs: { permission: 'billing:read' },
      handle: showSubscription({ database, clock, plans: () => catalog().plans, report }),
      describe: {
        operationId: 'getSubscription',
        summary: 'Read the subscription, its quota and what is used of it',
        description: 'Who never subscribed is shown the plan that there is, with the quota that it would give.',
        responses: { 200: { description: 'The subscription.', content: { 'application/json': subscription } } },
      },
    },
    {
      method: 'GET',
      path: '/usage',
      needs: { permission: 'billing:read', query: USAGE_PARAMETERS },
      handle: showUsage({ database, clock }),
      describe: {
        operationId: 'listUsage',
        summary: 'What was charged, in buckets of time',
        description:
          'Buckets are UTC, weeks begin on Monday, empty ones are left out. A call belongs to the instant at which it was ' +
          'admitted.',
        requestParams: { query: usageQuery },
        responses: { 200: { description: 'A page of buckets.', content: { 'application/json': usagePage } } },
      },
    },
    {
      method: 'GET',
      path: '/billing/spending-limit',
      needs: { permission: 'billing:read' },
      handle: showSpendingLimit(database, clock),
      describe: {
        operationId: 'getSpendingLimit',
        summary: 'Read the spending limit and what is spent',
        description: '404 when no limit is configured.',
        responses: { 200: { description: 'The limit.', content: { 'application/json': spendingLimit } } },
        refusals: [404],
      },
    },
    {
      method: 'PUT',
      path: '/billing/spending-limit',
      needs: { permission: 'billing:write', admin: true, body: 'json' },
      handle: putSpendingLimit(database, clock),
      describe: {
        operationId: 'setSpendingLimit',
        summary: 'Set the spending limit',
        description: "Needs an organization admin's key. Days and months are those of UTC.",
        requestBody: spendingLimitRequest,
        responses: { 200: { description: 'The limit as it is now.', content: { 'application/json': spendingLimit } } },
      },
    },
  ]
}

const notEnabled = refusal('not_found', 'This is not enabled on this server.')
const noDeposits = refusal('not-found', 'Stablecoin deposits are not enabled on this server.')
const noSubscriptions = refusal('payment-source-unavailable', 'Subscriptions are not configured on this server.')

/** What the interface has and this server does not yet: the key and its scope are checked all the same (B7). */
function routesNotEnabled(): Route[] {
  const off = (method: Route['method'], path: string, needs: Requirements, refusal = notEnabled): Route =>
    method === 'GET' || method === 'PUT'
      ? { method, path, needs, handle: () => refusal }
      : { method, path, needs, prepare: () => refused(refusal) }
  const billingRead = { permission: 'billing:read' } as const
  const billingWrite = { permission: 'billing:write' } as const
  return [
    off('GET', '/operations/{id}', { permission: 'any' }),
    off('GET', '/billing/deposits', billingRead, noDeposits),
    off('POST', '/billing/deposits/crypto', billingWrite, noDeposits),
    off('GET', '/billing/deposits/{id}', billingRead, noDeposits),
    off('POST', '/billing/subscription/checkout', { ...billingWrite, admin: true }, noSubscriptions),
    off('POST', '/billing/subscription/portal', { ...billingWrite, admin: true }, noSubscriptions),
  ]
}

const publicRoutes: DescribedRoute[] = [
  {
    method: 'GET',
    path: '/health',
    isPublic: true,
    describe: {
      operationId: 'getHealth',
      summary: 'Whether the server is alive',
      responses: {
        200: { description: 'It is.', content: { 'application/json': z.object({ status: z.literal('ok') }) } },
      },
    },
  },
  {
    method: 'GET',
    path: '/openapi.json',
    isPublic: true,
    describe: {
      operationId: 'getDescription',
      summary: 'This description',
      responses: { 200: { description: 'OpenAPI 3.1.', content: { 'application/json': z.looseObject({}) } } },
    },
  },
]

/** Where the management interface is. Its envelope is A. */
const MANAGE = '/manage/v1'

const PUBLIC = { title: 'Inference, media generation and billing', base: '/v1' }
const MANAGEMENT = { title: 'Management: what happened, and who was told', base: MANAGE }

/** Answers one request whose route is known. */
type Serve = ReturnType<typeof pipeline>

/** Builds the function that answers every request of the public port. */
export function createRouter(
  dependencies: RouteDependencies,
): (request: Request, connection: Connection) => Promise<Response> {
  const { edge, attempts } = dependencies
  const table = new RouteTable<Serve>()
  const add = (base: string, route: Route, name: string) => {
    const handle = 'handle' in route ? route.handle : onceForKey(attempts, route.needs, route.prepare)
    table.add(route.method, `${base}${patternOf(route.path)}`, pipeline(edge, name, route.needs, handle))
  }
  const served = [...servedRoutes(dependencies), ...webhookRoutes(dependencies.webhooks)]
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

function toResponse(answer: ReturnType<CatalogEndpoints['list']>) {
  if (!answer.ok) return answer.refusal
  const { status, headers, bytes } = answer.value
  return new Response(bytes as Uint8Array<ArrayBuffer> | null, { status, headers })
}
