import { refuse } from '../../lib/errors.ts'
import { uuidV7 } from '../../lib/ids.ts'
import { HOUR_MS } from '../../lib/time.ts'

/**
 * Checkouts for subscriptions, and portals, that an organization may open within an hour, and top-ups that one caller may: each is a request
 * to the payment provider.
 */
export const OPENED_AN_HOUR = 30

/** Returns an id that is below those made in the last hour, and above those made before it. */
export function anHourAgo(nowMs: number): string {
  return uuidV7(nowMs - HOUR_MS, (length) => new Uint8Array(length))
}

/**
 * Refuses with 429 an organization that has opened so many checkouts within the last hour. Count and insert in one transaction that has
 * locked the customer, so that checkouts which are asked for at once pass in turn.
 */
export function refuseTooMany(openedWithinHour: number, what: 'checkouts' | 'billing portals' = 'checkouts'): void {
  if (openedWithinHour < OPENED_AN_HOUR) return
  const message = `This organization has opened ${OPENED_AN_HOUR} ${what} within an hour, the most that it may. Wait, or use the last one.`
  refuse('rate_limited', message, { retryAfterSeconds: 60 })
}

/** Top-ups that all admins of an organization may begin within an hour, and as many all other callers: these leave admins their own. */
const TOP_UPS_AN_HOUR = 2 * OPENED_AN_HOUR

/** Refuses with 429 a caller who has begun so many top-ups within the last hour, or whose sort of callers has. Count as for `refuseTooMany`. */
export function refuseTooManyTopUps({ ofCaller, ofAll }: { readonly ofCaller: number; readonly ofAll: number }): void {
  if (ofCaller < OPENED_AN_HOUR && ofAll < TOP_UPS_AN_HOUR) return
  const message =
    ofCaller < OPENED_AN_HOUR
      ? `The callers of this organization have begun ${TOP_UPS_AN_HOUR} top-ups within an hour, the most that they may. Wait, or ask an admin.`
      : `You have begun ${OPENED_AN_HOUR} top-ups within an hour, the most that you may. Wait, or use the last one.`
  refuse('rate_limited', message, { retryAfterSeconds: 60 })
}
