import type { Queryable } from '../../io/postgres/database.ts'
import type { Place } from '../place.ts'
import type { Endpoint } from './endpoint.ts'
import { listEndpointsAfter } from './store.ts'

/** A page of endpoints, oldest first, and where the next one begins; null on the last page. */
export async function listEndpoints(
  database: Queryable,
  organizationId: string,
  after: Place | null,
  limit: number,
): Promise<{ endpoints: Endpoint[]; next: Place | null }> {
  const found = await listEndpointsAfter(database, organizationId, after, limit + 1)
  const endpoints = found.slice(0, limit)
  return { endpoints, next: found.length > limit ? (endpoints.at(-1) ?? null) : null }
}
