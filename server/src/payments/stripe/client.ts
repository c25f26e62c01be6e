import Stripe from 'stripe'
import { systemFetch } from '../../infra/fetch.ts'
import { refuse } from '../../lib/errors.ts'
import type { Log } from '../../lib/log.ts'
import type { Secret } from '../../lib/secret.ts'

/** The shapes of this version are what the code reads. A new version of the package brings another, and needs a look. */
export const STRIPE_API_VERSION = '2026-10-28.endive'

/** Longer than Stripe takes, and shorter than people wait. */
const TIMEOUT_MS = 20_000

export interface StripeSettings {
  readonly secretKey: Secret
  /** Another server that speaks Stripe's API, such as one for tests; null: Stripe's own. */
  readonly apiUrl: string | null
}

/** Returns a client of Stripe's official package. Requests are never redirected, and no figures of them are sent to Stripe. */
export function createStripe({ secretKey, apiUrl }: StripeSettings): Stripe {
  // The package sends by a URL alone, and asks for no connection beforehand.
  const send = Object.assign((url: unknown, init?: RequestInit) => systemFetch(String(url), init ?? {}), {
    preconnect() {},
  })
  const httpClient = Stripe.createFetchHttpClient(send)
  return new Stripe(secretKey.reveal(), {
    apiVersion: STRIPE_API_VERSION,
    httpClient,
    timeout: TIMEOUT_MS,
    maxNetworkRetries: 1,
    telemetry: false,
    ...(apiUrl === null ? {} : placeOf(new URL(apiUrl))),
  })
}

function placeOf({ protocol, hostname, port }: URL) {
  const isTls = protocol === 'https:'
  return { protocol: isTls ? 'https' : 'http', host: hostname, port: port === '' ? (isTls ? 443 : 80) : port } as const
}

const AWAY = 'The payment provider can’t be asked at the moment. Nothing was charged; try again.'

/** Goes through a list of Stripe's, page by page, with one page in memory; failures are those of `asking`. */
export async function* eachOf<T>(log: Log, doing: string, list: AsyncIterable<T>): AsyncIterable<T> {
  const items = list[Symbol.asyncIterator]()
  while (true) {
    const next = await asking(log, doing, () => items.next())
    if (next.done === true) return
    yield next.value
  }
}

/**
 * Runs a request to Stripe. A failure is logged by its kind and Stripe's request id, never with Stripe's words, and thrown as
 * `Refused` with `payment-source-unavailable`.
 */
export async function asking<T>(log: Log, doing: string, request: () => Promise<T>): Promise<T> {
  try {
    return await request()
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripeError)) throw error
    const { type, code, statusCode: status, requestId } = error
    const isOurs = type === 'StripeAuthenticationError' || type === 'StripePermissionError'
    const advice = isOurs ? 'check the secret key in the settings under "payments"' : 'it is tried again'
    log[isOurs ? 'error' : 'warn']({ type, code, status, stripeRequest: requestId, doing }, `Stripe refused: ${advice}`)
    return refuseForNow()
  }
}

/** Throws the refusal of what Stripe can't say now. It is tried again. */
export function refuseForNow(): never {
  return refuse('payment-source-unavailable', AWAY, { retryAfterSeconds: 5 })
}
