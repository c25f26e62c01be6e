/** The routes of instances. */

import { z } from 'zod'
import { apiKeyOrSession } from '../http/access.ts'
import { type DescribedHeaders, uselessRetryHeader } from '../http/describedHeaders.ts'
import type { Route } from '../http/route.ts'
import { operationSchema } from '../operations/wire.ts'
import {
  createAppPassword,
  createInstances,
  deleteInstances,
  type InstanceEndpoints,
  showInstance,
  showInstances,
  showOfferings,
} from './http.ts'
import { instanceSchema } from './job/wire.ts'
import {
  appPasswordSchema,
  INSTANCES_PARAMETERS,
  instanceCreateRequest,
  instancePage,
  instancesQuery,
  offeringsSchema,
} from './schemas.ts'

const READ = apiKeyOrSession('instances:read', 'member')
const WRITE = apiKeyOrSession('instances:write', 'member')

const path = z.object({ id: z.string() })

const operationHeaders: DescribedHeaders = {
  'Operation-Id': {
    description: 'The id of the operation.',
    required: true,
    schema: { type: 'string' },
  },
}

const accepted = {
  202: {
    description: 'The operation; ask `GET /operations/{id}` how it goes.',
    content: { 'application/json': operationSchema },
    headers: operationHeaders,
  },
}

/** Beneath /v1. That of the offerings comes first: in a description, too, the first path that fits is meant. */
export function instanceRoutes(endpoints: InstanceEndpoints): Route[] {
  const { access } = endpoints.settings
  return [
    ...readingRoutes(endpoints),
    ...writingRoutes(endpoints),
    ...(access === null ? [] : [passwordRoute(endpoints)]),
  ]
}

function passwordRoute(endpoints: InstanceEndpoints): Route {
  return {
    method: 'POST',
    path: '/instances/{id}/app-password',
    access: WRITE,
    ...{ body: 'json', isBodyOptional: true },
    prepare: createAppPassword(endpoints),
    describe: {
      operationId: 'createAppPassword',
      summary: "Make a new password for an instance's app",
      description:
        'Shown only in this answer. It is that of the app and its terminal, for Basic auth; the one before ends, and what it has ' +
        'opened within 10 seconds. A request that is sent again with its `Idempotency-Key` makes no other: it gets the first answer, ' +
        'whose password may have ended since.',
      requestParams: { path },
      responses: { 201: { description: 'The password.', content: { 'application/json': appPasswordSchema } } },
      refusals: [404],
    },
  }
}

function writingRoutes(endpoints: InstanceEndpoints): Route[] {
  return [
    {
      method: 'POST',
      path: '/instances',
      access: WRITE,
      idempotencyKey: 'required',
      body: 'json',
      prepare: createInstances(endpoints),
      describe: {
        operationId: 'createInstance',
        summary: 'Rent an instance',
        description:
          'Answers at once with an operation; the instance is made in the background. It is billed by the second, from its ' +
          'creation until its deletion is accepted or the end of its app is seen, within a minute. One that fails to start costs nothing; ' +
          'one that you delete before it runs is billed. ' +
          'The money for its next minutes is held; when no more can be held, it is deleted as soon as that is used up. With ' +
          '`auto_terminate_hours` of the spending limit it ends so long after its creation.',
        requestBody: instanceCreateRequest,
        responses: accepted,
        refusals: [402, 404, 409, 503],
        refusalWords: {
          404: 'Also: the app has no such model.',
          409: 'Or the price is another by now (`price_changed`); `x-should-retry: false` tells clients not to try by themselves.',
          429: 'Also: too many that were deleted at once.',
        },
        refusalHeaders: { 409: uselessRetryHeader },
      },
    },
    {
      method: 'DELETE',
      path: '/instances/{id}',
      access: WRITE,
      ...{ body: 'json', isBodyOptional: true },
      prepare: deleteInstances(endpoints),
      describe: {
        operationId: 'deleteInstance',
        summary: 'Delete an instance',
        description:
          'It costs nothing from the answer on. For an instance that is over, an operation that has succeeded.',
        requestParams: { path },
        responses: accepted,
        refusals: [404],
      },
    },
  ]
}

function readingRoutes(endpoints: InstanceEndpoints): Route[] {
  return [
    {
      method: 'GET',
      path: '/instances/offerings',
      access: READ,
      handle: showOfferings(endpoints.settings),
      describe: {
        operationId: 'listOfferings',
        summary: 'List what can be rented',
        responses: { 200: { description: 'GPU types and apps.', content: { 'application/json': offeringsSchema } } },
      },
    },
    {
      method: 'GET',
      path: '/instances',
      access: READ,
      query: INSTANCES_PARAMETERS,
      handle: showInstances(endpoints),
      describe: {
        operationId: 'listInstances',
        summary: 'List instances',
        requestParams: { query: instancesQuery },
        responses: { 200: { description: 'A page of instances.', content: { 'application/json': instancePage } } },
        refusals: [422],
      },
    },
    {
      method: 'GET',
      path: '/instances/{id}',
      access: READ,
      handle: showInstance(endpoints),
      describe: {
        operationId: 'retrieveInstance',
        summary: 'Retrieve an instance',
        requestParams: { path },
        responses: { 200: { description: 'The instance.', content: { 'application/json': instanceSchema } } },
        refusals: [404],
      },
    },
  ]
}
