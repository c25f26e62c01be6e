/** A subscription as it was retrieved from a payment provider. Nothing else decides what it entitles to. */
export interface SubscriptionFacts {
  /** The payment provider's id of it, and of its customer. */
  readonly subscription: string
  readonly customer: string
  /** In the payment provider's words, such as `active`. */
  readonly status: string
  /** The payment provider's id of the price, which says the plan (B10). */
  readonly price: string
  /** Of the current period, milliseconds since the epoch. */
  readonly periodStartMs: number
  readonly periodEndMs: number
  readonly cancelAtPeriodEnd: boolean
  readonly createdAtMs: number
  /** True when its last invoice was paid, and came to more than nothing. */
  readonly isPaid: boolean
  /** `all`: it was never paid. `period`: this period, or this price, is not paid yet. Null: all is paid, or need not be. */
  readonly unpaid: 'all' | 'period' | null
}

/** A checkout for a subscription as it was retrieved. */
export type SubscriptionCheckoutFacts =
  | { readonly state: 'open' | 'expired' }
  | { readonly state: 'complete'; readonly subscription: string }

/** The words of payment providers for subscriptions that have ended. */
export const ENDED_STATUSES: readonly string[] = ['canceled', 'incomplete_expired']
const ENDED: ReadonlySet<string> = new Set(ENDED_STATUSES)
const ENTITLING: ReadonlySet<string> = new Set(['active', 'trialing'])

/** The word of payment providers for a subscription whose first payment is not made. */
export const INCOMPLETE = 'incomplete'

/**
 * Returns the status that a subscription has here (B10): one that was never paid is incomplete, whatever its payment provider calls
 * it. So is one of which no earlier period is known, while its period is not paid.
 */
export function statusByPayment({ status, unpaid }: SubscriptionFacts, isPeriodKnown: boolean): string {
  const lacksPayment = unpaid === 'all' || (unpaid === 'period' && !isPeriodKnown)
  return ENTITLING.has(status) && lacksPayment ? INCOMPLETE : status
}

export function hasSubscriptionEnded(status: string): boolean {
  return ENDED.has(status)
}

/** A subscription among those of its organization. */
export interface Candidate {
  readonly subscription: string
  readonly status: string
  readonly createdAtMs: number
  /** True when it was found to be one too many before. */
  readonly isSurplus: boolean
}

/**
 * Returns the subscription that counts for an organization, and those that are one too many (B9): where several entitle, the oldest
 * counts, and all others that have not ended are surplus. Where none entitles, the newest counts and none is surplus. One that
 * `mayEntitle` denies entitles to nothing, whatever its status.
 */
export function chooseSubscription<T extends Candidate>(
  candidates: readonly T[],
  mayEntitle: (candidate: T) => boolean,
): { readonly current: T | null; readonly surplus: readonly T[] } {
  const oldestFirst = candidates.filter(({ isSurplus }) => !isSurplus).toSorted((a, b) => a.createdAtMs - b.createdAtMs)
  const live = oldestFirst.filter(({ status }) => !hasSubscriptionEnded(status))
  const entitling = live.find((each) => ENTITLING.has(each.status) && mayEntitle(each))
  if (entitling === undefined) return { current: live.at(-1) ?? oldestFirst.at(-1) ?? null, surplus: [] }
  return { current: entitling, surplus: live.filter((each) => each !== entitling) }
}
