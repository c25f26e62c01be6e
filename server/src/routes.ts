/** Every route, and what a request must bring to each: the table of contents. `edge/pipeline.ts` has the order of checks. */

import { z } from 'zod'
import { type BillingRouteDependencies, billingRoutes } from './billingRoutes.ts'
import { type CatalogEndpoints, createCatalogEndpoints } from './catalog/http.ts'
import { ModelListSchema, ModelSchema, ModelsQuerySchema } from './catalog/schemas.ts'
import type { CompatSettings } from './catalog/settings.ts'
import type { ChatDependencies } from './chat/dependencies.ts'
import { chatCompletionChunk, chatCompletionResponse, chatCompletions, chatRequestSchema } from './chat/http.ts'
import { costHeader } from './edge/cost.ts'
import { type DescribedRoute, errorSchema } from './edge/describe.ts'
import { etagHeaders, planRefusedHeaders, streamHeaders } from './edge/describedHeaders.ts'
import type { Requirements } from './edge/pipeline.ts'
import type { Route } from './edge/route.ts'
import type { EmbeddingsDependencies } from './embeddings/embed.ts'
import { embeddings, embeddingsRequestSchema, embeddingsResponse } from './embeddings/http.ts'
import type { ImagesDependencies } from './images/generate.ts'
import { imagesGenerations, imagesGenerationsRequest, imagesResponse } from './images/http.ts'
import type { ByteBudget } from './kernel/byteBudget.ts'
import { refusal } from './kernel/errors.ts'
import type { Log } from './kernel/log.ts'
import { refused } from './kernel/result.ts'
import { inferencePreflight, preflightQuery, showPreflight } from './preflight/http.ts'
import { type VideoRouteDependencies, videoRoutes } from './videoRoutes.ts'
import { type WebhookRouteDependencies, webhookRoutes } from './webhookRoutes.ts'

export interface RouteDependencies extends VideoRouteDependencies, BillingRouteDependencies {
  readonly log: Log
  /** Where large answers are held. */
  readonly memory: ByteBudget
  readonly compat: CompatSettings
  readonly chat: ChatDependencies
  readonly embeddings: EmbeddingsDependencies
  readonly images: ImagesDependencies
  readonly webhooks: WebhookRouteDependencies
}

const READ = { permission: 'serverless:read' } as const

/** What is served beneath /v1 to whoever has a key. */
export function servedRoutes(dependencies: RouteDependencies): Route[] {
  const { log, clock, catalog, chat, openRequests, memory, compat, database } = dependencies
  const models = createCatalogEndpoints(clock)
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
          200: {
            description: 'The live catalog.',
            content: { 'application/json': ModelListSchema },
            headers: etagHeaders,
          },
          304: { description: 'Unchanged since the ETag in If-None-Match.', headers: etagHeaders },
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
          200: { description: 'The model.', content: { 'application/json': ModelSchema }, headers: etagHeaders },
          304: { description: 'Unchanged since the ETag in If-None-Match.', headers: etagHeaders },
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
            headers: { ...costHeader, ...streamHeaders },
          },
        },
        refusals: [402, 404, 502, 504],
        refusalHeaders: { 429: planRefusedHeaders },
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
        responses: {
          200: {
            description: 'The vectors.',
            content: { 'application/json': embeddingsResponse },
            headers: costHeader,
          },
        },
        refusals: [402, 404, 502, 504],
        refusalHeaders: { 429: planRefusedHeaders },
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
        responses: {
          200: { description: 'The images.', content: { 'application/json': imagesResponse }, headers: costHeader },
        },
        refusals: [402, 404, 502, 504],
        refusalHeaders: { 429: planRefusedHeaders },
      },
    },
    ...videoRoutes(dependencies),
    {
      method: 'GET',
      path: '/inference/preflight',
      needs: { ...READ, query: ['model'] },
      handle: showPreflight({ database, clock, log, money: chat.money, catalog }),
      describe: {
        operationId: 'getInferencePreflight',
        summary: 'What would happen if a model were called now',
        description: 'Nothing is sent, counted, charged or set aside. A gate that can not be read never blocks.',
        requestParams: { query: preflightQuery },
        responses: { 200: { description: 'The verdict.', content: { 'application/json': inferencePreflight } } },
        refusals: [404],
      },
    },
    ...billingRoutes(dependencies),
    ...webhookRoutes(dependencies.webhooks),
  ]
}

const notEnabled = refusal('not_found', 'This is not enabled on this server.')
const noDeposits = refusal('not-found', 'Stablecoin deposits are not enabled on this server.')
const noSubscriptions = refusal('payment-source-unavailable', 'Subscriptions are not configured on this server.')

/** What the interface has and this server does not yet: the key and its scope are checked all the same (B7). */
export function routesNotEnabled(): Route[] {
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

/** What needs no key, beneath /v1. */
export const publicRoutes: DescribedRoute[] = [
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

function toResponse(answer: ReturnType<CatalogEndpoints['list']>) {
  if (!answer.ok) return answer.refusal
  const { status, headers, bytes } = answer.value
  return new Response(bytes as Uint8Array<ArrayBuffer> | null, { status, headers })
}
