/** Auto-pay: what an organization has agreed to, and when the next payment may be tried. Pure. */

import { DAY_MS, HOUR_MS } from '../../lib/time.ts'

/** The agreement of an organization, and how its last payments ended. */
export interface AutoPay {
  readonly isEnabled: boolean
  /** US cents: a payment is made when the balance is below. Null: not set yet; never while auto-pay is on. */
  readonly thresholdCents: number | null
  /** The amount that is credited, US cents, before tax. Null: not set yet; never while auto-pay is on. */
  readonly amountCents: number | null
  /** Payments that may be tried in a UTC day, successes included. */
  readonly attemptsADay: number
  /** Payments that were declined one after the other. */
  readonly declines: number
  /** The last failure since the last success, or since it began anew. */
  readonly failure: { readonly atMs: number; readonly reason: string } | null
  /** True when the organization was told that its bank asks for a person. */
  readonly isTold: boolean
  /** True when it was switched off because of declines. A newly saved payment method switches it on again. */
  readonly isSuspended: boolean
  /** Up to here every payment in the payment provider's list is known; null: none was compared. */
  readonly listedUntilMs: number | null
}

export const ATTEMPTS_A_DAY = 3
export const ATTEMPTS_A_DAY_MOST = 10

/** The waits after declines in a row. The one after them switches auto-pay off. */
const WAITS_MS = [HOUR_MS, 6 * HOUR_MS, DAY_MS] as const

/** Returns when a payment is tried again after so many declines in a row, the last of them now; null: no more. */
export function nextTryMs(declines: number, nowMs: number): number | null {
  const waitMs = WAITS_MS[declines - 1]
  return waitMs === undefined ? null : nowMs + waitMs
}

/** Returns when the wait after the last decline ends, whatever has changed since; null: there was none, or no more is tried. */
export function waitEndMs({ declines, failure }: Pick<AutoPay, 'declines' | 'failure'>): number | null {
  return failure === null ? null : nextTryMs(declines, failure.atMs)
}

/** The first instant of the UTC day of an instant. */
export function dayStartMs(nowMs: number): number {
  return nowMs - (nowMs % DAY_MS)
}

/** The next step that auto-pay takes for an account. */
export type AutoPayStep =
  /** Nothing, until the balance falls. */
  { readonly kind: 'rest' } | { readonly kind: 'wait'; readonly untilMs: number } | { readonly kind: 'pay' }

/** Decides what is to be done about an account of which no payment is under way. `triedToday`: payments begun in the UTC day. */
export function decideAutoPay(
  account: { readonly balanceMicrocents: bigint; readonly thresholdMicrocents: bigint | null },
  agreement: Pick<AutoPay, 'attemptsADay' | 'declines' | 'failure'>,
  triedToday: number,
  nowMs: number,
): AutoPayStep {
  const { balanceMicrocents, thresholdMicrocents } = account
  if (thresholdMicrocents === null || balanceMicrocents >= thresholdMicrocents) return { kind: 'rest' }
  const waitUntilMs = waitEndMs(agreement) ?? nowMs
  if (nowMs < waitUntilMs) return { kind: 'wait', untilMs: waitUntilMs }
  if (triedToday >= agreement.attemptsADay) return { kind: 'wait', untilMs: dayStartMs(nowMs) + DAY_MS }
  return { kind: 'pay' }
}
