/** The routes of webhooks: those of the interface, and the first ones of the management interface. Part of `routes.ts`. */

import { z } from 'zod'
import { cacheHeader, type DescribedHeaders } from './edge/describedHeaders.ts'
import type { Route } from './edge/route.ts'
import type { Transaction } from './io/postgres/database.ts'
import type { Networks } from './kernel/networks.ts'
import type { CreateDependencies } from './webhooks/endpoints/create.ts'
import {
  deleteEndpoint,
  endpointsQuery,
  newWebhookEndpoint,
  postEndpoint,
  showEndpoints,
  webhookEndpointPage,
  webhookEndpointRequest,
} from './webhooks/endpoints/http.ts'
import { holdEndpoint } from './webhooks/endpoints/store.ts'
import type { Follower } from './webhooks/events/follow.ts'
import { lastEventId, STREAM_START, showEvents, webhookEvent } from './webhooks/events/http.ts'
import {
  DELIVERIES_PARAMETERS,
  deliveriesQuery,
  delivery,
  deliveryPage,
  postRedelivery,
  postTest,
  showDeliveries,
  testQuery,
} from './webhooks/log/http.ts'
import { noteEvent } from './webhooks/publish.ts'

export interface WebhookRouteDependencies extends CreateDependencies {
  /** Deletes the kept answer of an idempotent attempt. */
  readonly forgetAnswer: (tx: Transaction, attempt: string) => Promise<void>
  readonly allowed: Networks
  readonly follower: Follower
}

const READ = { permission: 'webhooks:read' } as const
const WRITE = { permission: 'webhooks:write' } as const

const id = z.object({ id: z.string().meta({ format: 'uuid' }) })

const streamHeaders: DescribedHeaders = {
  ...cacheHeader,
  [STREAM_START]: {
    description: 'To be sent as Last-Event-ID by who comes back before having seen an event.',
    required: true,
    schema: { type: 'string' },
  },
}

/** Beneath /v1. */
export function webhookRoutes(dependencies: WebhookRouteDependencies): Route[] {
  return [
    {
      method: 'GET',
      path: '/webhook-endpoints',
      needs: { ...READ, query: ['limit', 'cursor'] },
      handle: showEndpoints(dependencies.database),
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
      needs: { ...WRITE, body: 'json', idempotencyKey: 'required' },
      prepare: postEndpoint(dependencies, dependencies.allowed),
      describe: {
        operationId: 'createWebhookEndpoint',
        summary: 'Make a webhook endpoint',
        description: 'At most 50 an organization. The secret is in this answer, and in its replays, and nowhere else.',
        requestBody: webhookEndpointRequest,
        responses: { 201: { description: 'It is made.', content: { 'application/json': newWebhookEndpoint } } },
      },
    },
    {
      method: 'DELETE',
      path: '/webhook-endpoints/{id}',
      needs: WRITE,
      prepare: deleteEndpoint(dependencies),
      describe: {
        operationId: 'deleteWebhookEndpoint',
        summary: 'Delete a webhook endpoint',
        description: 'With its secret, and what is still on its way to it.',
        requestParams: { path: id },
        responses: { 204: { description: 'It is deleted.' } },
        refusals: [404],
      },
    },
  ]
}

/** Beneath /manage/v1. */
export function manageRoutes(dependencies: WebhookRouteDependencies): Route[] {
  const { database, clock, follower } = dependencies
  return [
    {
      method: 'GET',
      path: '/deliveries',
      needs: { ...READ, query: DELIVERIES_PARAMETERS },
      handle: showDeliveries(database),
      describe: {
        operationId: 'listDeliveries',
        summary: 'List deliveries of the last 30 days, with their attempts',
        requestParams: { query: deliveriesQuery },
        responses: { 200: { description: 'A page.', content: { 'application/json': deliveryPage } } },
      },
    },
    {
      method: 'POST',
      path: '/deliveries/{id}/redeliver',
      needs: WRITE,
      prepare: postRedelivery({ database, clock }),
      describe: {
        operationId: 'redeliver',
        summary: 'Deliver an event to its endpoint again',
        description: 'Begins the schedule of attempts anew; one that waits for its next attempt gets it now.',
        requestParams: { path: id },
        responses: { 202: { description: 'It is on its way.', content: { 'application/json': delivery } } },
        refusals: [404],
      },
    },
    {
      method: 'GET',
      path: '/events',
      needs: { ...READ, isStream: true },
      handle: showEvents(follower, clock),
      describe: {
        operationId: 'followEvents',
        summary: 'Follow the events as they happen',
        description:
          'A stream of server-sent events: `id` and `event` are id and type, `data` is what webhooks are sent. With ' +
          '`Last-Event-ID`, as clients send it when they connect again, it goes on behind that event; else it begins now. The header `Svc-Stream-Start` says where: a client that comes ' +
          'back before it has seen an event sends that.',
        requestParams: { header: lastEventId },
        responses: {
          200: { description: 'The stream.', content: { 'text/event-stream': webhookEvent }, headers: streamHeaders },
        },
        refusals: [422],
      },
    },
    {
      method: 'POST',
      path: '/webhook-endpoints/{id}/test',
      needs: { ...WRITE, query: ['type'] },
      prepare: postTest({ ...dependencies, holdEndpoint, noteEvent }),
      describe: {
        operationId: 'testWebhookEndpoint',
        summary: 'Send a sample event to a webhook endpoint',
        description: 'Of a type that it subscribed to, about the video `video_test`. Delivered like any other.',
        requestParams: { path: id, query: testQuery },
        responses: { 202: { description: 'It is on its way.', content: { 'application/json': delivery } } },
        refusals: [404],
      },
    },
  ]
}
