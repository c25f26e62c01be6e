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
 * calls.
 */
const KEYS_OF_ORGANIZATION = 10

/** The places of this process. */
export function createOpenRequests(limit: number): { take(owner: PlaceOwner): LeavePlace | Refusal } {
  const byKey = new Map<string, number>()
  const byOrganization = new Map<string, number>()
  return {
    take({ id, organizationId }) {
      if ((byKey.get(id) ?? 0) >= limit) return noPlace(limit)
      const ofOrganization = limit * KEYS_OF_ORGANIZATION
      if ((byOrganization.get(organizationId) ?? 0) >= ofOrganization) return noPlaceOfOrganization(ofOrganization)
      add(byKey, id, 1)
      add(byOrganization, organizationId, 1)
      return () => {
        add(byKey, id, -1)
        add(byOrganization, organizationId, -1)
      }
    },
  }
}

function add(counts: Map<string, number>, id: string, more: 1 | -1): void {
  const count = (counts.get(id) ?? 0) + more
  if (count === 0) counts.delete(id)
  else counts.set(id, count)
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
