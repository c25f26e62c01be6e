import Stripe from 'stripe'
import { systemFetch } from '../../infra/fetch.ts'
import { Refused } from '../../lib/errors.ts'
import type { Log } from '../../lib/log.ts'
import type { Secret } from '../../lib/secret.ts'
import { PROVIDER_AWAY, UnreadableObject } from '../provider/unreadable.ts'

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
  const send = Object.assign((url: unknown, init?: RequestInit) => sendUnredirected(String(url), init ?? {}), {
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

/** Sends a request. Throws where the answer is a redirect: the package would take its body for the object that was asked for. */
async function sendUnredirected(url: string, init: RequestInit): Promise<Response> {
  const response = await systemFetch(url, init)
  if (response.status < 300 || response.status > 399) return response
  await response.body?.cancel()
  throw new Error(`the answer is a redirect (${response.status}), which is not followed`)
}

function placeOf({ protocol, hostname, port }: URL) {
  const isTls = protocol === 'https:'
  return { protocol: isTls ? 'https' : 'http', host: hostname, port: port === '' ? (isTls ? 443 : 80) : port } as const
}

/** Goes through a list of Stripe's, page by page, with one page in memory; failures are those of `asking`. */
export async function* eachOf<T>(log: Log, doing: string, list: AsyncIterable<T>): AsyncIterable<T> {
  const items = list[Symbol.asyncIterator]()
  while (true) {
    const next = await asking(log, doing, () => items.next())
    if (next.done === true) return
    yield next.value
  }
}

const KEY_ADVICE =
  "check the secret key: the settings name its environment variable under 'payments', as 'secret_key_env'"

/** With these kinds of failures Stripe, or the network, refuses every request now. With others the next object may be readable. */
const OF_ALL: ReadonlySet<string> = new Set([
  'StripeConnectionError',
  'StripeRateLimitError',
  'StripeAuthenticationError',
  'StripePermissionError',
])

/**
 * Runs a request to Stripe. A failure is logged by its kind and Stripe's request id, never with Stripe's words, and thrown as
 * `Refused` with `payment-source-unavailable`: as `UnreadableObject` where it may be a failure of one object alone. `object`: Stripe's id of
 * the object that is asked for.
 */
export async function asking<T>(
  log: Log,
  doing: string,
  request: () => Promise<T>,
  object: string | null = null,
): Promise<T> {
  try {
    return await request()
  } catch (error) {
    if (error instanceof TypeError) throw unknownShape(log, doing, object, error)
    if (!(error instanceof Stripe.errors.StripeError)) throw error
    const { type, code, statusCode: status, requestId } = error
    const isOurs = type === 'StripeAuthenticationError' || type === 'StripePermissionError'
    const isMissing = status === 404 && code === 'resource_missing'
    const fields = { type, code, status, stripeRequest: requestId, doing, ...(object === null ? {} : { object }) }
    if (isOurs) log.error(fields, `Stripe refused: ${KEY_ADVICE}`)
    else if (type === 'StripeConnectionError') log.warn(fields, 'Stripe could not be reached')
    else log.warn(fields, isMissing ? 'Stripe refused: it has no such object' : 'Stripe refused the request')
    if (OF_ALL.has(type)) throw new Refused(PROVIDER_AWAY)
    const why = isMissing ? 'Stripe has no such object' : `Stripe refused the request (${code ?? status ?? type})`
    throw new UnreadableObject({ object, why, isMissing })
  }
}

/** Asks Stripe for an object, and turns it into facts. Fails as `asking` does, also where the object has an unknown shape. */
export async function reading<Wire, Facts>(
  log: Log,
  { doing, object }: { readonly doing: string; readonly object: string | null },
  request: () => Promise<Wire>,
  fromWire: (wire: Wire) => Facts,
): Promise<Facts> {
  const wire = await asking(log, doing, request, object)
  try {
    return fromWire(wire)
  } catch (error) {
    if (error instanceof UnreadableObject) {
      log.warn({ object, doing, why: error.why }, 'an object of Stripe can not be read')
      throw error
    }
    throw unknownShape(log, doing, object, error)
  }
}

const UNKNOWN_SHAPE = 'it has another shape than in the pinned version of the API'

function unknownShape(log: Log, doing: string, object: string | null, err: unknown): UnreadableObject {
  log.error({ err, object, doing }, `an object of Stripe can not be read: ${UNKNOWN_SHAPE}`)
  return new UnreadableObject({ object, why: UNKNOWN_SHAPE })
}

/** Returns a text that Stripe always gives. @throws `TypeError` where it gave none, which `reading` takes for an unknown shape. */
export function givenText(value: unknown): string {
  if (typeof value === 'string') return value
  throw new TypeError('Stripe gave no text here')
}
