/**
 * Documents that never change: `/health` and the descriptions. They need no key and ask no database, so that they are answered while
 * the server stops too. The descriptions are large, and are counted by the address of their reader; `/health` is small, and is not.
 */

import { z } from 'zod'
import type { Peer } from '../infra/httpServer.ts'
import { addressGroup } from '../lib/clientAddress.ts'
import { requestIdOf } from '../lib/requestId.ts'
import { publicAccess } from './access.ts'
import { type DescribedRoute, describeService } from './describe.ts'
import { envelopeOf, inEnvelope, refusalResponse } from './envelopes.ts'
import { refuseUnknownQuery } from './faults.ts'
import { ADDRESS_RATE_LIMIT, type RateVerdict } from './limits/rateLimit.ts'
import { refuseRate, tellRate } from './limits/wire.ts'
import type { PipelineDependencies, Serve } from './pipeline.ts'
import { refuseAnnouncedLength } from './readBody.ts'
import { MANAGE, type Route } from './route.ts'

const TITLE = 'Inference, media generation and billing'
const MANAGE_TITLE = 'Management: people, keys, payments and webhook deliveries'

/** Documents beneath /v1, as the description has them. */
const described: DescribedRoute[] = [
  {
    method: 'GET',
    path: '/health',
    access: publicAccess,
    isDocument: true,
    isUnlimited: true,
    describe: {
      operationId: 'getHealth',
      summary: 'Check whether the server is alive',
      responses: {
        200: { description: 'It is alive.', content: { 'application/json': z.object({ status: z.literal('ok') }) } },
      },
    },
  },
  {
    method: 'GET',
    path: '/openapi.json',
    access: publicAccess,
    isDocument: true,
    describe: {
      operationId: 'getDescription',
      summary: 'Read this description',
      responses: { 200: { description: 'OpenAPI 3.1.', content: { 'application/json': z.looseObject({}) } } },
    },
  },
]

/**
 * Returns the documents by their paths, with the descriptions of `routes`. `sessionCookie` is the name of the cookie that sessions
 * come by; undefined: there are none.
 */
export function publicDocumentsOf(
  routes: readonly Route[],
  dependencies: DocumentDependencies,
  sessionCookie?: string,
): Map<string, Serve> {
  const [own, managed] = [routes.filter(({ base }) => base === undefined), routes.filter(({ base }) => base === MANAGE)]
  const unlimited = (body: object) => documentOf(dependencies, body, () => null)
  const document = (body: object) => documentOf(dependencies, body, rateOf(dependencies))
  return new Map([
    ['/v1/health', unlimited({ status: 'ok' })],
    [
      '/v1/openapi.json',
      document(describeService([...described, ...own], { title: TITLE, base: '/v1', sessionCookie })),
    ],
    ['/manage/openapi.json', document(describeService(managed, { title: MANAGE_TITLE, base: MANAGE, sessionCookie }))],
  ])
}

type DocumentDependencies = Pick<
  PipelineDependencies,
  'random' | 'addressRateLimiter' | 'clientAddress' | 'bodyLimitBytes'
>

/** Counts a request. Null: it is not counted. */
type Rate = (request: Request, connection: Peer) => RateVerdict | Promise<RateVerdict> | null

/** Counts by the client's address, with the requests to public routes. */
function rateOf({ addressRateLimiter, clientAddress }: DocumentDependencies): Rate {
  return (request, connection) => {
    const address = clientAddress(connection.address, request.headers.get('X-Forwarded-For'))
    return addressRateLimiter.take(addressGroup(address), ADDRESS_RATE_LIMIT)
  }
}

function documentOf({ random, bodyLimitBytes }: DocumentDependencies, body: object, rate: Rate): Serve {
  const text = JSON.stringify(body)
  return async (request, { path, query }, connection) => {
    const requestId = requestIdOf(request.headers.get('X-Request-Id'), random)
    const envelope = envelopeOf(path)
    // No document takes a body; one that is announced as longer is refused as everywhere (E1).
    const tooLong = refuseAnnouncedLength(request.headers, bodyLimitBytes)
    if (tooLong !== null) return refusalResponse(inEnvelope(tooLong, envelope), envelope, requestId)
    const counted = await rate(request, connection)
    const refused =
      (counted && refuseRate(counted, 'address')) ?? refuseUnknownQuery(new URLSearchParams(query), [], envelope)
    const response =
      refused === null
        ? new Response(text, { headers: { 'Content-Type': 'application/json', 'X-Request-Id': requestId } })
        : refusalResponse(refused, envelope, requestId)
    if (counted !== null) tellRate(response.headers, counted)
    return response
  }
}
