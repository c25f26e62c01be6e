import type { Clock } from '../../lib/time.ts'
import { createOpenRequests, type OpenRequests } from './openRequests.ts'
import { createRateLimiter, createSharedRateLimiter, type RateLimiter, type SharedLimits } from './rateLimit.ts'
import { createSharedPlaces } from './sharedPlaces.ts'

/** The limits of keys: how often they call, and how many calls they have open. */
export interface Limits {
  readonly rateLimiter: RateLimiter
  /** Of addresses that call routes without a key. Each process has its own: strangers never fill the shared store. */
  readonly addressRateLimiter: RateLimiter
  readonly openRequests: OpenRequests
  /** Returns whether requests are let through because the store that processes share does not answer. */
  isStoreAway(): boolean
  close(): void
}

interface Sharing {
  /** Opens the store; `onReady` is to be called whenever it answers after it was away. */
  readonly open: (onReady: () => void) => SharedLimits & { readonly isAway: boolean; close(): void }
  /** Like no other process's. */
  readonly processName: string
  /** A request was let through unlimited because the store is away. */
  readonly onSkipped: () => void
}

/** Addresses that are counted at one time. The one that called longest ago is forgotten first. */
const ADDRESSES = 10_000

/** In the memory of this process, or, with `sharing`, where several processes keep them. */
export function openLimits(
  { clock, openRequestsPerKey }: { readonly clock: Clock; readonly openRequestsPerKey: number },
  sharing: Sharing | null,
): Limits {
  const addressRateLimiter = createRateLimiter(clock, ADDRESSES)
  if (sharing === null) {
    return {
      rateLimiter: createRateLimiter(clock),
      addressRateLimiter,
      openRequests: createOpenRequests(openRequestsPerKey),
      isStoreAway: () => false,
      close: () => {},
    }
  }
  const shared = sharing.open(() => places.renew())
  const places = createSharedPlaces(shared, openRequestsPerKey, { clock, processName: sharing.processName })
  return {
    rateLimiter: createSharedRateLimiter(shared, sharing.onSkipped),
    addressRateLimiter,
    openRequests: places,
    isStoreAway: () => shared.isAway,
    close() {
      places.close()
      shared.close()
    },
  }
}
