import { type Refusal, refusal } from '../../lib/errors.ts'

/** Gives a place back; call it once. */
export type LeavePlace = () => void

/** Counts the inference requests that each key has open (K4). One entry for each key with an open request. */
export interface OpenRequests {
  /** Takes a place, or refuses with 429 `stream_limit_exceeded`. At once where no other process has to be asked. */
  take(keyId: string): LeavePlace | Refusal | Promise<LeavePlace | Refusal>
}

/** The places of this process. */
export function createOpenRequests(limit: number): { take(keyId: string): LeavePlace | Refusal } {
  const open = new Map<string, number>()
  return {
    take(keyId) {
      const now = open.get(keyId) ?? 0
      if (now >= limit) return noPlace(limit)
      open.set(keyId, now + 1)
      return () => {
        const left = (open.get(keyId) ?? 1) - 1
        if (left === 0) open.delete(keyId)
        else open.set(keyId, left)
      }
    },
  }
}

/** The refusal of who has `limit` requests open. */
export function noPlace(limit: number): Refusal {
  return refusal(
    'stream_limit_exceeded',
    `This key has ${limit} requests open, the most it may have at once. Wait for one to end.`,
    { retryAfterSeconds: 1 },
  )
}
