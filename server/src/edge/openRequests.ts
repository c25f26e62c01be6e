import { type Refusal, refusal } from '../kernel/errors.ts'

/** Counts the inference requests that each key has open (K4). One entry for each key with an open request. */
export interface OpenRequests {
  /** Takes a place, or refuses with 429 `stream_limit_exceeded`. The function gives the place back; call it once. */
  take(keyId: string): (() => void) | Refusal
}

export function createOpenRequests(limit: number): OpenRequests {
  const open = new Map<string, number>()
  return {
    take(keyId) {
      const now = open.get(keyId) ?? 0
      if (now >= limit) {
        return refusal(
          'stream_limit_exceeded',
          `This key has ${limit} requests open, the most it may have at once. Wait for one to end.`,
          { retryAfterSeconds: 1 },
        )
      }
      open.set(keyId, now + 1)
      return () => {
        const left = (open.get(keyId) ?? 1) - 1
        if (left === 0) open.delete(keyId)
        else open.set(keyId, left)
      }
    },
  }
}
