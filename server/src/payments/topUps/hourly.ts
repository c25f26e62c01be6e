import { refuse } from '../../lib/errors.ts'
import { uuidV7 } from '../../lib/ids.ts'
import { HOUR_MS, secondsUntilOver } from '../../lib/time.ts'

/**
 * Checkouts for subscriptions, and portals, that an organization may open within an hour, and top-ups that one caller may: each is a request
 * to the payment provider.
 */
export const OPENED_AN_HOUR = 30

/** The key or the member that begins a top-up. */
export interface TopUpCaller {
  readonly id: string
  readonly isAdmin: boolean
}

/** The instants of a caller's top-ups, and of all that are of its sort, the newest first. */
export interface RecentTopUps {
  readonly ofCaller: readonly number[]
  readonly ofAll: readonly number[]
}

/** Returns an id that is below those made in the last hour, and above those made before it. */
export function anHourAgo(nowMs: number): string {
  return uuidV7(nowMs - HOUR_MS, (length) => new Uint8Array(length))
}

/**
 * Refuses with 429 an organization that has opened so many checkouts within the last hour; `recentMs`: the instants of these, the newest
 * first. Read and insert in one transaction that has locked the customer, so that checkouts which are asked for at once pass in turn.
 */
export function refuseTooMany(
  recentMs: readonly number[],
  nowMs: number,
  what: 'checkouts' | 'billing portals' = 'checkouts',
): void {
  const freeMs = freeAtMs(recentMs, OPENED_AN_HOUR)
  if (freeMs === null) return
  const message = `This organization has opened ${OPENED_AN_HOUR} ${what} within an hour, the most that it may. Wait, or use the last one.`
  refuse('rate_limited', message, { retryAfterSeconds: secondsUntilOver(freeMs, nowMs) })
}

/** Top-ups that all admins of an organization may begin within an hour, and as many all other callers: these leave admins their own. */
const TOP_UPS_AN_HOUR = 2 * OPENED_AN_HOUR

/** Refuses with 429 a caller who has begun so many top-ups within the last hour, or whose sort of callers has. Read as for `refuseTooMany`. */
export function refuseTooManyTopUps({ ofCaller, ofAll }: RecentTopUps, nowMs: number): void {
  const callerFreeMs = freeAtMs(ofCaller, OPENED_AN_HOUR)
  const allFreeMs = freeAtMs(ofAll, TOP_UPS_AN_HOUR)
  if (callerFreeMs === null && allFreeMs === null) return
  const message =
    callerFreeMs === null
      ? `The callers of this organization have begun ${TOP_UPS_AN_HOUR} top-ups within an hour, the most that they may. Wait, or ask an admin.`
      : `You have begun ${OPENED_AN_HOUR} top-ups within an hour, the most that you may. Wait, or use the last one.`
  const freeMs = Math.max(callerFreeMs ?? nowMs, allFreeMs ?? nowMs)
  refuse('rate_limited', message, { retryAfterSeconds: secondsUntilOver(freeMs, nowMs) })
}

/** Returns when fewer than `most` of the instants will be within an hour; null: they are fewer now. */
function freeAtMs(recentMs: readonly number[], most: number): number | null {
  const last = recentMs[most - 1]
  return last === undefined ? null : last + HOUR_MS
}
