import { z } from 'zod'
import {
  createDocument,
  type ZodOpenApiObject,
  type ZodOpenApiOperationObject,
  type ZodOpenApiPathsObject,
} from 'zod-openapi'
import { KEY_LIMIT } from '../idempotency/answer.ts'
import { BRAND } from '../kernel/brand.ts'
import { ERROR_CATALOGUE } from '../kernel/errors.ts'
import {
  type DescribedHeaders,
  rateHeaders,
  replayedHeader,
  requestIdHeader,
  retryAfterHeader,
} from './describedHeaders.ts'
import { type Envelope, envelopeOf } from './envelopes.ts'

/** What a route says of itself in `/openapi.json`. */
export interface Description {
  /** A verb and its object, unique: generated clients name their functions after it. */
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly requestParams?: NonNullable<ZodOpenApiOperationObject['requestParams']>
  readonly requestBody?: z.ZodType
  /** Success responses: status → content type → schema. */
  readonly responses: Readonly<
    Record<
      number,
      {
        readonly description: string
        readonly content?: Record<string, z.ZodType>
        /** Beyond those that every response has. */
        readonly headers?: DescribedHeaders
      }
    >
  >
  /** Statuses of refusals beyond those that every route of its envelope, or with a body, has. */
  readonly refusals?: readonly number[]
  /** Headers of refusals beyond those that all of their status have. */
  readonly refusalHeaders?: Readonly<Record<number, DescribedHeaders>>
}

/** A route as the description sees it. */
export interface DescribedRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Beneath the base of its interface, parameters in braces. */
  readonly path: string
  readonly isPublic?: boolean
  readonly describe?: Description
  readonly needs?: { readonly idempotencyKey?: 'required'; readonly body?: 'json' | 'form' }
}

/** Codes of the interface's enumeration whose conditions it does not show; nothing emits them (E13). */
const CODES_WITHOUT_CONDITION = [
  'invalid_gpu_type',
  'disk_unavailable',
  'disk_exceeds_offering',
  'model_too_large',
  'gpu_vram_too_small',
  'price_changed',
  'creator_check_unavailable',
]

/** Codes that conditions of endpoints not served yet produce; part of the enumeration all the same. */
const CODES_OF_LATER_ENDPOINTS = ['operation_failed']

const problemSchema = z
  .object({
    type: z.string().meta({ format: 'uri' }),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.enum([...Object.keys(ERROR_CATALOGUE), ...CODES_OF_LATER_ENDPOINTS, ...CODES_WITHOUT_CONDITION] as [
      string,
      ...string[],
    ]),
    request_id: z.string().meta({ description: 'Equals the X-Request-Id of the response.' }),
  })
  .meta({ id: 'Problem' })

/** Envelope B, also what an error event of a stream carries. */
export const errorSchema = z
  .object({
    error: z.object({
      message: z.string(),
      type: z.string(),
      code: z.string(),
      param: z.string().nullable(),
    }),
  })
  .meta({ id: 'Error' })

/** What every route with a key can refuse with. */
const ALWAYS = [401, 403, 429, 500, 503]
/** An unknown query parameter (E8). */
const BAD_QUERY: Readonly<Record<Envelope, number>> = { A: 422, B: 400 }
const BAD_BODY: Readonly<Record<Envelope, readonly number[]>> = { A: [413, 422], B: [400, 413, 422] }
/** An announced body that is too large, although it would not be read; an Idempotency-Key in use, or used otherwise. */
const BAD_DOING = [409, 413, 422]

const STATUS_WORDS: Readonly<Record<number, string>> = {
  400: 'The request is not valid.',
  401: 'No API key, or one that is not valid.',
  402: 'The balance or a cap does not allow it.',
  403: 'The key may not do this.',
  404: 'Not found.',
  409: 'The first request with this Idempotency-Key is still running; see Retry-After.',
  410: 'The file has expired.',
  413: 'The body is too large.',
  416: 'Nothing of the file is in the Range.',
  422: 'Validation failed.',
  429: 'Too many requests; see Retry-After.',
  500: 'Internal error.',
  502: 'The model server sent a faulty answer.',
  503: 'Temporarily unavailable; see Retry-After.',
  504: 'The model server took too long.',
}

/** Methods that take an Idempotency-Key. */
const DOING: ReadonlySet<string> = new Set(['POST', 'PATCH', 'DELETE'])

const idempotencyKey = z.string().min(1).max(KEY_LIMIT).meta({
  description:
    'Sent again with the same key within 24 hours, a request is not carried out again: its first answer is given again.',
})

function keyHeader({ method, needs }: DescribedRoute) {
  if (!DOING.has(method)) return {}
  const isRequired = needs?.idempotencyKey === 'required'
  return { header: z.object({ 'Idempotency-Key': isRequired ? idempotencyKey : idempotencyKey.optional() }) }
}

function refusalContent(envelope: Envelope) {
  return envelope === 'A'
    ? { 'application/problem+json': { schema: problemSchema } }
    : { 'application/json': { schema: errorSchema } }
}

/** In ascending order, each once. 405 is no operation's: a wrong method has none. */
function refusalsOf(route: DescribedRoute, describe: Description, envelope: Envelope): number[] {
  if (route.isPublic) return []
  const ofBody = describe.requestBody === undefined ? [] : BAD_BODY[envelope]
  const ofDoing = DOING.has(route.method) ? BAD_DOING : []
  const all = new Set([...ALWAYS, BAD_QUERY[envelope], ...ofBody, ...ofDoing, ...(describe.refusals ?? [])])
  return [...all].sort((a, b) => a - b)
}

/** A route that takes forms takes JSON too. */
function bodyContent({ needs }: DescribedRoute, schema: z.ZodType): Record<string, { schema: z.ZodType }> {
  const json = { 'application/json': { schema } }
  return needs?.body === 'form' ? { ...json, 'multipart/form-data': { schema } } : json
}

function operationOf(route: DescribedRoute, describe: Description, envelope: Envelope): ZodOpenApiOperationObject {
  const responses: ZodOpenApiOperationObject['responses'] = {}
  for (const [status, { description, content, headers }] of Object.entries(describe.responses)) {
    responses[`${Number(status)}` as '200'] = {
      description,
      headers: {
        ...requestIdHeader,
        ...(route.isPublic ? {} : rateHeaders),
        ...(DOING.has(route.method) ? replayedHeader : {}),
        ...headers,
      },
      ...(content === undefined
        ? {}
        : { content: Object.fromEntries(Object.entries(content).map(([type, schema]) => [type, { schema }])) }),
    }
  }
  for (const status of refusalsOf(route, describe, envelope)) {
    responses[`${status}` as '400'] = {
      description: STATUS_WORDS[status] ?? 'Refused.',
      headers: {
        ...requestIdHeader,
        // Who is not known has no limit of their own.
        ...(status === 401 ? {} : rateHeaders),
        ...([409, 429, 503].includes(status) ? retryAfterHeader : {}),
        ...describe.refusalHeaders?.[status],
      },
      content: refusalContent(envelope),
    }
  }
  return {
    operationId: describe.operationId,
    summary: describe.summary,
    ...(describe.description === undefined ? {} : { description: describe.description }),
    requestParams: { ...describe.requestParams, ...keyHeader(route) },
    ...(describe.requestBody === undefined
      ? {}
      : { requestBody: { required: true, content: bodyContent(route, describe.requestBody) } }),
    responses,
    ...(route.isPublic ? { security: [] } : {}),
  }
}

/** An interface of this server. */
export interface Service {
  readonly title: string
  /** What the paths of its routes are beneath. */
  readonly base: string
}

/** The machine-readable description of everything that an interface serves, OpenAPI 3.1. */
export function describeService(routes: readonly DescribedRoute[], { title, base }: Service): object {
  const paths: ZodOpenApiPathsObject = {}
  for (const route of routes) {
    if (route.describe === undefined) continue
    const path = paths[route.path] ?? {}
    path[route.method.toLowerCase() as 'get'] = operationOf(route, route.describe, envelopeOf(`${base}${route.path}`))
    paths[route.path] = path
  }
  const document: ZodOpenApiObject = {
    openapi: '3.1.0',
    info: {
      title,
      version: '1.0.0',
      description: `Model ids are \`${BRAND}/<slug>\`. Money is in USD cents unless a field says otherwise.`,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: base }],
    security: [{ apiKey: [] }],
    paths,
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', bearerFormat: `${BRAND}_live_<24 base62 characters>` },
      },
    },
  }
  return createDocument(document, { override: ({ jsonSchema }) => dropSafeBounds(jsonSchema) })
}

/** The bounds of JavaScript's own integers say nothing to a client. */
function dropSafeBounds(schema: { minimum?: number; maximum?: number }): void {
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum
}
