import { z } from 'zod'
import { anyKeyOrSession } from '../http/access.ts'
import type { Route } from '../http/route.ts'
import type { Queryable } from '../infra/postgres/database.ts'
import { showOperation } from './http.ts'
import { operationSchema } from './wire.ts'

/** Beneath /v1. */
export function operationRoutes(database: Queryable): Route[] {
  return [
    {
      method: 'GET',
      path: '/operations/{id}',
      access: anyKeyOrSession,
      handle: showOperation(database),
      describe: {
        operationId: 'getOperation',
        summary: 'Retrieve an operation',
        description:
          'A key sees the operations that it asked for. Ask again after 1, 2, 4, 8, 16 and then every 30 seconds.',
        requestParams: { path: z.object({ id: z.string() }) },
        responses: { 200: { description: 'The operation.', content: { 'application/json': operationSchema } } },
        refusals: [404],
      },
    },
  ]
}
