/**
 * Documents that never change: `/health` and the descriptions. They need no key and cost nothing, so that nobody is counted, and
 * they are answered while the server stops too.
 */

import { z } from 'zod'
import type { RandomBytes } from '../lib/ids.ts'
import { publicAccess } from './access.ts'
import { type DescribedRoute, describeService } from './describe.ts'
import { envelopeOf, refusalResponse } from './envelopes.ts'
import type { Serve } from './pipeline.ts'
import { refuseAnnouncedLength } from './readBody.ts'
import { requestIdOf } from './requestId.ts'
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
  const document = (body: object) => documentOf(dependencies, body)
  return new Map([
    ['/v1/health', document({ status: 'ok' })],
    [
      '/v1/openapi.json',
      document(describeService([...described, ...own], { title: TITLE, base: '/v1', sessionCookie })),
    ],
    ['/manage/openapi.json', document(describeService(managed, { title: MANAGE_TITLE, base: MANAGE, sessionCookie }))],
  ])
}

interface DocumentDependencies {
  readonly random: RandomBytes
  /** No document takes a body; one that is announced as longer is refused as everywhere (E1). */
  readonly bodyLimitBytes: number
}

function documentOf({ random, bodyLimitBytes }: DocumentDependencies, body: object): Serve {
  const text = JSON.stringify(body)
  return async (request, { path }) => {
    const requestId = requestIdOf(request.headers.get('X-Request-Id'), random)
    const tooLong = refuseAnnouncedLength(request.headers, bodyLimitBytes)
    if (tooLong !== null) return refusalResponse(tooLong, envelopeOf(path), requestId)
    return new Response(text, { headers: { 'Content-Type': 'application/json', 'X-Request-Id': requestId } })
  }
}
