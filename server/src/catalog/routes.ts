import { z } from 'zod'
import { apiKey } from '../http/access.ts'
import { etagHeaders } from '../http/describedHeaders.ts'
import type { Answer, Handle } from '../http/pipeline.ts'
import type { Route } from '../http/route.ts'
import type { Clock } from '../lib/time.ts'
import { type CatalogEndpoints, createCatalogEndpoints } from './http.ts'
import type { Catalog } from './model.ts'
import { ModelListSchema, ModelSchema, ModelsQuerySchema } from './schemas.ts'

interface CatalogRouteDependencies {
  readonly clock: Clock
  readonly catalog: () => Catalog
}

export function catalogRoutes({ clock, catalog }: CatalogRouteDependencies): Route[] {
  const models = createCatalogEndpoints(clock)
  return [
    {
      method: 'GET',
      path: '/models',
      access: apiKey('serverless:read'),
      query: ['modality'],
      handle: listModels(models, catalog),
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
      takesRest: true,
      access: apiKey('serverless:read'),
      handle: retrieveModel(models, catalog),
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
  ]
}

function listModels(models: CatalogEndpoints, catalog: () => Catalog): Handle {
  return async ({ query, request }) =>
    toResponse(await models.list(catalog(), query, request.headers.get('If-None-Match')))
}

/** Model ids hold slashes, so that the id is the rest of the path. */
function retrieveModel(models: CatalogEndpoints, catalog: () => Catalog): Handle {
  return ({ query, request, parameters: [id = ''] }) =>
    toResponse(models.retrieve(catalog(), id, query, request.headers.get('If-None-Match')))
}

function toResponse(answer: ReturnType<CatalogEndpoints['retrieve']>): Answer {
  if (!answer.ok) return answer.refusal
  const { status, headers, bytes } = answer.value
  return new Response(bytes as Uint8Array<ArrayBuffer> | null, { status, headers })
}
