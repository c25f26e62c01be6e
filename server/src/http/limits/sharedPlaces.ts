import { type Clock, SECOND_MS } from '../../lib/time.ts'
import { createOpenRequests, noPlace, type OpenRequests } from './openRequests.ts'
import type { SharedLimits } from './rateLimit.ts'
import { placeOperation } from './script.ts'

/** Places of open requests that all processes share. */
export interface SharedPlaces extends OpenRequests {
  /** Notes every place of this process in the store, which may have forgotten them: call it when the store is back. */
  renew(): void
  close(): void
}

/** A place is forgotten after this, so that those of a process that was killed come free. */
const PLACE_TTL_MICROS = 30_000_000
const RENEW_INTERVAL_MS = 10 * SECOND_MS

/**
 * This process's own places are counted in its memory too: they need nobody asked to be refused, and hold while the store
 * is away. `processName` is like no other process's.
 */
export function createSharedPlaces(
  shared: SharedLimits,
  limit: number,
  { clock, processName }: { readonly clock: Clock; readonly processName: string },
): SharedPlaces {
  const own = createOpenRequests(limit)
  const taken = new Set<{ readonly keyId: string; readonly member: string }>()
  let takenBefore = 0

  const renew = () => {
    for (const place of taken) void shared.run(placeOperation('keep', place, PLACE_TTL_MICROS))
  }
  let cancel = () => {}
  const renewAgain = () => {
    cancel = clock.after(RENEW_INTERVAL_MS, () => {
      renew()
      renewAgain()
    })
  }
  renewAgain()

  return {
    take(owner) {
      const leave = own.take(owner)
      if (typeof leave !== 'function') return leave
      takenBefore += 1
      const place = { keyId: owner.id, member: `${processName}:${takenBefore}` }
      taken.add(place)
      const giveBack = () => {
        taken.delete(place)
        leave()
        void shared.run(placeOperation('give', place))
      }
      const asked = shared.run(placeOperation('take', place, PLACE_TTL_MICROS, limit))
      if (asked === null) return giveBack
      return asked.then((answer) => {
        if (answer === null || answer[0] === 1) return giveBack
        taken.delete(place)
        leave()
        return noPlace(limit)
      })
    },
    renew,
    close: () => cancel(),
  }
}
