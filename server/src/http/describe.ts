import { z } from 'zod'
import {
  createDocument,
  type ZodOpenApiObject,
  type ZodOpenApiOperationObject,
  type ZodOpenApiPathsObject,
} from 'zod-openapi'
import { BRAND } from '../lib/brand.ts'
import { ERROR_CATALOGUE } from '../lib/errors.ts'
import type { Access } from './access.ts'
import { takesIdempotencyKey } from './access.ts'
import {
  type DescribedHeaders,
  privateHeaders,
  rateHeaders,
  replayedHeader,
  requestIdHeader,
  retryAfterHeader,
} from './describedHeaders.ts'
import { type Envelope, envelopeOf } from './envelopes.ts'
import { KEY_LIMIT } from './idempotency/answer.ts'

/** The words and schemas of a route in `/openapi.json`. */
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
  /** Sentences on refusals, beyond those that all of their status have. */
  readonly refusalWords?: Readonly<Record<number, string>>
}

/** A route as the description sees it. */
export interface DescribedRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Beneath the base of its interface, parameters in braces. */
  readonly path: string
  readonly access: { readonly kind: Access['kind']; readonly forOperators?: true }
  /** A document that never changes: it is answered while the server stops and the database is away, too. */
  readonly isDocument?: true
  /** Its requests are not counted. */
  readonly isUnlimited?: true
  readonly describe?: Description
  readonly idempotencyKey?: 'required'
  readonly body?: 'json' | 'form' | 'raw'
  readonly isBodyOptional?: true
}

/** Codes of the interface's enumeration that no refusal has: this one stands in an operation. */
const CODES_OF_NO_REFUSAL = ['operation_failed']

const problemSchema = z
  .object({
    type: z.string().meta({ format: 'uri' }),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.enum([...Object.keys(ERROR_CATALOGUE), ...CODES_OF_NO_REFUSAL] as [string, ...string[]]),
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

/** The 404 of a route for operators: `error` is in that of everybody else, which is the answer to an unknown path. */
const operatorsProblem = z
  .object({ ...problemSchema.shape, error: errorSchema.shape.error.optional() })
  .meta({ id: 'ProblemOrUnknownPath' })

/** The refusals that every route has, by the callers that it admits. A signed one adds those of its `verify`. */
const ALWAYS: Readonly<Record<Access['kind'], readonly number[]>> = {
  apiKey: [401, 403, 429, 500, 503],
  session: [401, 403, 429, 500, 503],
  apiKeyOrSession: [401, 403, 429, 500, 503],
  public: [429, 500, 503],
  signed: [429, 500, 503],
}
/** The same of routes for operators alone, which nobody else is told of. */
const ALWAYS_OF_OPERATORS = [404, 429, 500, 503]
/** A change by a session that comes from another site, or without its CSRF token. */
const CROSS_SITE = 403
/** An unknown query parameter (E8). */
const BAD_QUERY: Readonly<Record<Envelope, number>> = { A: 422, B: 400 }
const BAD_BODY: Readonly<Record<Envelope, readonly number[]>> = { A: [413, 422], B: [400, 413, 422] }
/** An announced body that is too large, of any method, although it would not be read. */
const BAD_LENGTH = 413
const TOO_MANY = 429
/** An Idempotency-Key in use, or used otherwise. */
const BAD_DOING = [409, 422]

const STATUS_WORDS: Readonly<Record<number, string>> = {
  400: 'The request is not valid.',
  401: 'The API key is missing or not valid.',
  402: 'The balance, a spending limit or the cap of new accounts does not cover it.',
  403: 'The key may not do this.',
  404: 'Not found.',
  409: 'The first request with this Idempotency-Key is still running; see Retry-After.',
  410: 'The file has expired.',
  413: 'The body is too large.',
  416: 'No byte of the file is in the Range.',
  422: 'Validation failed.',
  429: 'Too many requests; see Retry-After.',
  500: 'Internal error.',
  502: 'The model server sent a faulty answer.',
  503: 'Temporarily unavailable; see Retry-After.',
  504: 'The model server took too long.',
}

function wordsOn({ refusalWords }: Description, status: number): string[] {
  const words = refusalWords?.[status]
  return words === undefined ? [] : [words]
}

/** Returns whether its answers are for their caller alone (E18). */
function isPrivate({ access }: DescribedRoute): boolean {
  return access.kind !== 'public' && access.kind !== 'signed'
}

/** Returns whether a session may change something by it. */
function isSessionsChange({ method, access }: DescribedRoute, hasSessions: boolean): boolean {
  return hasSessions && method !== 'GET' && (access.kind === 'session' || access.kind === 'apiKeyOrSession')
}

const csrfToken = z.string()
const CSRF_OF_SESSION = csrfToken.meta({ description: 'The `csrf_token` of GET /manage/v1/session.' })
const CSRF_OF_EITHER = csrfToken.optional().meta({
  description: 'Of a change by a session: the `csrf_token` of GET /manage/v1/session. An API key needs none.',
})

const idempotencyKey = z.string().min(1).max(KEY_LIMIT).meta({
  description:
    'A request that is sent again with the same key within 24 hours is not carried out again: you get its first answer.',
})

function headersOf(route: DescribedRoute, hasSessions: boolean) {
  const isRequired = route.idempotencyKey === 'required'
  const headers = {
    ...(takesIdempotencyKey(route)
      ? { 'Idempotency-Key': isRequired ? idempotencyKey : idempotencyKey.optional() }
      : {}),
    ...(isSessionsChange(route, hasSessions)
      ? { 'X-CSRF-Token': route.access.kind === 'session' ? CSRF_OF_SESSION : CSRF_OF_EITHER }
      : {}),
  }
  return Object.keys(headers).length === 0 ? {} : { header: z.object(headers) }
}

function refusalContent(envelope: Envelope, isOperators404: boolean) {
  if (isOperators404) return { 'application/problem+json': { schema: operatorsProblem } }
  return envelope === 'A'
    ? { 'application/problem+json': { schema: problemSchema } }
    : { 'application/json': { schema: errorSchema } }
}

/** In ascending order, each once. 405 is no operation's: a wrong method has none. */
function refusalsOf(route: DescribedRoute, describe: Description, envelope: Envelope): number[] {
  if (route.isDocument) return [BAD_LENGTH, BAD_QUERY[envelope], ...(route.isUnlimited ? [] : [TOO_MANY])]
  const ofBody = describe.requestBody === undefined ? [] : BAD_BODY[envelope]
  const ofDoing = takesIdempotencyKey(route) ? BAD_DOING : []
  const always = route.access.forOperators ? ALWAYS_OF_OPERATORS : ALWAYS[route.access.kind]
  const all = new Set([
    ...always,
    ...(route.access.forOperators && route.method !== 'GET' ? [CROSS_SITE] : []),
    BAD_QUERY[envelope],
    BAD_LENGTH,
    ...ofBody,
    ...ofDoing,
    ...(describe.refusals ?? []),
  ])
  return [...all].sort((a, b) => a - b)
}

/** A route that takes forms takes JSON too. */
function bodyContent({ body }: DescribedRoute, schema: z.ZodType): Record<string, { schema: z.ZodType }> {
  const json = { 'application/json': { schema } }
  return body === 'form' ? { ...json, 'multipart/form-data': { schema } } : json
}

function operationOf(
  route: DescribedRoute,
  describe: Description,
  envelope: Envelope,
  hasSessions: boolean,
): ZodOpenApiOperationObject {
  const responses: ZodOpenApiOperationObject['responses'] = {}
  const ofCaller = isPrivate(route) ? privateHeaders : {}
  const ofRate = route.isUnlimited ? {} : rateHeaders
  for (const [status, { description, content, headers }] of Object.entries(describe.responses)) {
    responses[`${Number(status)}` as '200'] = {
      description,
      headers: {
        ...requestIdHeader,
        ...ofCaller,
        ...ofRate,
        ...(takesIdempotencyKey(route) ? replayedHeader : {}),
        ...headers,
      },
      ...(content === undefined
        ? {}
        : { content: Object.fromEntries(Object.entries(content).map(([type, schema]) => [type, { schema }])) }),
    }
  }
  for (const status of refusalsOf(route, describe, envelope)) {
    const isOperators404 = route.access.forOperators === true && status === 404
    responses[`${status}` as '400'] = {
      description: [STATUS_WORDS[status] ?? 'Refused.', ...wordsOn(describe, status)].join(' '),
      headers: {
        ...requestIdHeader,
        ...(isOperators404 ? optional(ofCaller) : ofCaller),
        // A caller that is not known has no limit of its own.
        ...(status === 401 ? {} : ofRate),
        ...([409, 429, 503].includes(status) ? retryAfterHeader : {}),
        ...describe.refusalHeaders?.[status],
      },
      content: refusalContent(envelope, isOperators404),
    }
  }
  return {
    operationId: describe.operationId,
    summary: describe.summary,
    ...(describe.description === undefined ? {} : { description: describe.description }),
    requestParams: { ...describe.requestParams, ...headersOf(route, hasSessions) },
    ...(describe.requestBody === undefined
      ? {}
      : {
          requestBody: { required: route.isBodyOptional !== true, content: bodyContent(route, describe.requestBody) },
        }),
    responses,
    ...securityOf(route, hasSessions),
  }
}

function optional(headers: DescribedHeaders): DescribedHeaders {
  return Object.fromEntries(
    Object.entries(headers).map(([name, { description, schema }]) => [name, { description, schema }]),
  )
}

/** The ways in: those of the whole description, API keys, go without saying. */
function securityOf({ access }: DescribedRoute, hasSessions: boolean): Pick<ZodOpenApiOperationObject, 'security'> {
  switch (access.kind) {
    case 'apiKey':
      return {}
    case 'session':
      return { security: [{ session: [] }] }
    case 'apiKeyOrSession':
      return hasSessions ? { security: [{ apiKey: [] }, { session: [] }] } : {}
    default:
      return { security: [] }
  }
}

/** An interface of this server. */
export interface Service {
  readonly title: string
  /** The prefix of the paths of its routes, such as `/v1`. */
  readonly base: string
  /** The name of the cookie that people's sessions come by; left out: there are none. */
  readonly sessionCookie?: string | undefined
}

/** The machine-readable description of everything that an interface serves, OpenAPI 3.1. */
export function describeService(routes: readonly DescribedRoute[], { title, base, sessionCookie }: Service): object {
  const paths: ZodOpenApiPathsObject = {}
  for (const route of routes) {
    if (route.describe === undefined) continue
    const path = paths[route.path] ?? {}
    const envelope = envelopeOf(`${base}${route.path}`)
    path[route.method.toLowerCase() as 'get'] = operationOf(
      route,
      route.describe,
      envelope,
      sessionCookie !== undefined,
    )
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
        ...(sessionCookie === undefined
          ? {}
          : { session: { type: 'apiKey' as const, in: 'cookie' as const, name: sessionCookie } }),
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
