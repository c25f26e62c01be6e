import { type Refusal, refusal } from '../../lib/errors.ts'

/** Gives a place back; call it once. */
export type LeavePlace = () => void

/** A caller that takes places: its key, or the member of a session, and their organization. */
export interface PlaceOwner {
  readonly id: string
  readonly organizationId: string
}

/** Counts the inference requests that each key has open (K4). One entry for each key and organization with an open request. */
export interface OpenRequests {
  /** Takes a place, or refuses with 429 `stream_limit_exceeded`. At once where no other process has to be asked. */
  take(owner: PlaceOwner): LeavePlace | Refusal | Promise<LeavePlace | Refusal>
}

/**
 * An organization has the places of so many keys in each process, however many keys it has: a process has descriptors for some 10,000
 * calls. So many keys' bodies may arrive, too.
 */
export const KEYS_OF_ORGANIZATION = 10

/** The places of this process. */
export function createOpenRequests(limit: number): { take(owner: PlaceOwner): LeavePlace | Refusal } {
  const byKey = new Map<string, Count>()
  const byOrganization = new Map<string, Count>()
  return {
    take({ id, organizationId }) {
      const ofKey = byKey.get(id) ?? { open: 0 }
      if (ofKey.open >= limit) return noPlace(limit)
      const most = limit * KEYS_OF_ORGANIZATION
      const ofOrganization = byOrganization.get(organizationId) ?? { open: 0 }
      if (ofOrganization.open >= most) return noPlaceOfOrganization(most)
      add(byKey, id, ofKey)
      add(byOrganization, organizationId, ofOrganization)
      return () => {
        remove(byKey, id, ofKey)
        remove(byOrganization, organizationId, ofOrganization)
      }
    },
  }
}

/** Stands in its map while any request is open, and is counted in place: a map is looked up once a request. */
interface Count {
  open: number
}

function add(counts: Map<string, Count>, id: string, count: Count): void {
  if (count.open === 0) counts.set(id, count)
  count.open += 1
}

function remove(counts: Map<string, Count>, id: string, count: Count): void {
  count.open -= 1
  if (count.open === 0) counts.delete(id)
}

/** The refusal of a key that has `limit` requests open. */
export function noPlace(limit: number): Refusal {
  return refusal(
    'stream_limit_exceeded',
    `This key has ${limit} requests open, the most it may have at once. Wait for one to end.`,
    { retryAfterSeconds: 1 },
  )
}

function noPlaceOfOrganization(limit: number): Refusal {
  return refusal(
    'stream_limit_exceeded',
    `The keys of this organization have ${limit} requests open here, the most they may have at once. Wait for one to end.`,
    { retryAfterSeconds: 1 },
  )
}
