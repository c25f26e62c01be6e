/** The routes of webhooks: those of the interface, and the first ones of the management interface. */

import { z } from 'zod'
import { apiKeyOrSession } from '../http/access.ts'
import { cacheHeader, type DescribedHeaders, streamHeaders } from '../http/describedHeaders.ts'
import { MANAGE, type Route } from '../http/route.ts'
import type { Noter } from '../identity/audit/note.ts'
import type { Queryable, Transaction } from '../infra/postgres/database.ts'
import type { Networks } from '../lib/networks.ts'
import type { CreateDependencies } from './endpoints/create.ts'
import {
  deleteEndpoint,
  endpointsQuery,
  newWebhookEndpoint,
  postEndpoint,
  showEndpoints,
  webhookEndpointPage,
  webhookEndpointRequest,
} from './endpoints/http.ts'
import type { Follower } from './events/follow.ts'
import { lastEventId, STREAM_START, showEvents, webhookEvent } from './events/http.ts'
import {
  answeredDelivery,
  DELIVERIES_PARAMETERS,
  deliveriesQuery,
  delivery,
  deliveryPage,
  postRedelivery,
  postTest,
  showDeliveries,
  showDelivery,
  testQuery,
} from './log/http.ts'
import type { TestDependencies } from './log/sendTest.ts'
import { noteEvent } from './publish.ts'

export interface WebhookRouteDependencies
  extends CreateDependencies,
    Pick<TestDependencies, 'holdEndpoint' | 'limits' | 'refuseUnfunded'> {
  /** Deletes the kept answer of an idempotent attempt. */
  readonly forgetAnswer: (tx: Transaction, attempt: string) => Promise<void>
  /** Writes changes into the audit log. */
  readonly noter: Noter
  /** For reads whose clients wait. */
  readonly reads: Queryable
  readonly allowed: Networks
  readonly follower: Follower
}

const READ = apiKeyOrSession('webhooks:read', 'member')
const WRITE = apiKeyOrSession('webhooks:write', 'member')

const id = z.object({ id: z.string().meta({ format: 'uuid' }) })

const eventsHeaders: DescribedHeaders = {
  ...cacheHeader,
  ...streamHeaders,
  [STREAM_START]: {
    description: 'If you reconnect before you received an event, send this as `Last-Event-ID`.',
    required: true,
    schema: { type: 'string' },
  },
}

export function webhookRoutes(dependencies: WebhookRouteDependencies): Route[] {
  return [...publicRoutes(dependencies), ...manageRoutes(dependencies)]
}

/** Beneath /v1. */
function publicRoutes(dependencies: WebhookRouteDependencies): Route[] {
  return [
    {
      method: 'GET',
      path: '/webhook-endpoints',
      access: READ,
      query: ['limit', 'cursor'],
      handle: showEndpoints(dependencies.reads),
      describe: {
        operationId: 'listWebhookEndpoints',
        summary: 'List the webhook endpoints',
        description: 'Without their secrets.',
        requestParams: { query: endpointsQuery },
        responses: { 200: { description: 'A page.', content: { 'application/json': webhookEndpointPage } } },
      },
    },
    {
      method: 'POST',
      path: '/webhook-endpoints',
      access: WRITE,
      body: 'json',
      idempotencyKey: 'required',
      prepare: postEndpoint(dependencies, dependencies.allowed),
      describe: {
        operationId: 'createWebhookEndpoint',
        summary: 'Make a webhook endpoint',
        description:
          'An organization may have 50, at most two with the same URL. The secret is only in this answer and its replays.',
        requestBody: webhookEndpointRequest,
        responses: { 201: { description: 'The endpoint.', content: { 'application/json': newWebhookEndpoint } } },
      },
    },
    {
      method: 'DELETE',
      path: '/webhook-endpoints/{id}',
      access: WRITE,
      prepare: deleteEndpoint(dependencies),
      describe: {
        operationId: 'deleteWebhookEndpoint',
        summary: 'Delete a webhook endpoint',
        description: 'Deletes its secret and its pending deliveries too.',
        requestParams: { path: id },
        responses: { 204: { description: 'The endpoint is deleted.' } },
        refusals: [404],
      },
    },
  ]
}

/** Beneath /manage/v1. */
function manageRoutes(dependencies: WebhookRouteDependencies): Route[] {
  const { reads } = dependencies
  return [
    {
      base: MANAGE,
      method: 'GET',
      path: '/deliveries',
      access: READ,
      query: DELIVERIES_PARAMETERS,
      handle: showDeliveries(reads),
      describe: {
        operationId: 'listDeliveries',
        summary: 'List deliveries of the last 30 days, with their attempts',
        description: 'Without the answers to the attempts, which a delivery has by its id. A page ends early at 1 MiB.',
        requestParams: { query: deliveriesQuery },
        responses: { 200: { description: 'A page.', content: { 'application/json': deliveryPage } } },
      },
    },
    {
      base: MANAGE,
      method: 'GET',
      path: '/deliveries/{id}',
      access: READ,
      handle: showDelivery(reads),
      describe: {
        operationId: 'retrieveDelivery',
        summary: 'Retrieve a delivery, with the answers to its attempts',
        requestParams: { path: id },
        responses: { 200: { description: 'The delivery.', content: { 'application/json': answeredDelivery } } },
        refusals: [404],
      },
    },
    {
      base: MANAGE,
      method: 'POST',
      path: '/deliveries/{id}/redeliver',
      access: WRITE,
      prepare: postRedelivery(dependencies),
      describe: {
        operationId: 'redeliver',
        summary: 'Deliver an event to its endpoint again',
        description: `Starts the schedule of attempts again. A delivery that waits for its next attempt gets it now. ${LIMITED}`,
        requestParams: { path: id },
        responses: { 202: { description: 'The delivery, pending.', content: { 'application/json': delivery } } },
        refusals: [402, 404],
      },
    },
    streamRoute(dependencies),
    {
      base: MANAGE,
      method: 'POST',
      path: '/webhook-endpoints/{id}/test',
      access: WRITE,
      query: ['type'],
      prepare: postTest({ ...dependencies, noteEvent }),
      describe: {
        operationId: 'testWebhookEndpoint',
        summary: 'Send a sample event to a webhook endpoint',
        description:
          'Sends the endpoint a sample event, of one of the types that it is subscribed to. The sample is about the video `video_test` or the instance `instance_test`. It is signed and ' +
          `retried like any other. ${LIMITED}`,
        requestParams: { path: id, query: testQuery },
        responses: { 202: { description: 'The delivery, pending.', content: { 'application/json': delivery } } },
        refusals: [402, 404],
      },
    },
  ]
}

const LIMITED =
  'Tests and redeliveries together are limited for each organization, 30 a minute by default (429). Without credit or a ' +
  'subscription they are refused (402).'

/** The stream of events, beneath /manage/v1. */
function streamRoute({ follower, clock }: WebhookRouteDependencies): Route {
  return {
    base: MANAGE,
    method: 'GET',
    path: '/events',
    access: READ,
    handle: showEvents(follower, clock),
    describe: {
      operationId: 'followEvents',
      summary: 'Follow the events as they happen',
      description:
        'A stream of server-sent events: `id` and `event` are the id and type, `data` is the body that webhooks get. With ' +
        '`Last-Event-ID`, which clients send when they reconnect, it continues after that event; otherwise it begins now. ' +
        'If you reconnect before you received an event, send the value of the header `Svc-Stream-Start`.',
      requestParams: { header: lastEventId },
      responses: {
        200: { description: 'The stream.', content: { 'text/event-stream': webhookEvent }, headers: eventsHeaders },
      },
      refusals: [422],
    },
  }
}
