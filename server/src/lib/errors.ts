/**
 * The one catalogue of what a client can be refused with. Everything that reaches the wire as an error names one of
 * these codes; `http/envelopes.ts` turns it into envelope A or B.
 */

/** The `type` field of envelope B. Envelope A derives its own `type` from the code. */
export type ErrorType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'permission_error'
  | 'billing_error'
  | 'rate_limit_error'
  | 'api_error'

interface CatalogueEntry {
  readonly status: number
  /** The constant title of envelope A. */
  readonly title: string
}

export const ERROR_CATALOGUE = {
  // 400
  invalid_request: { status: 400, title: 'The request is not valid' },
  unsupported_parameter: { status: 400, title: 'A parameter is not supported' },
  context_length_exceeded: { status: 400, title: 'The prompt is too long for the model' },
  'invalid-request': { status: 400, title: 'The request is not valid' },
  'unsupported-chain-asset': { status: 400, title: 'The chain or the asset is not supported' },
  'validation-error': { status: 400, title: 'A value is not valid' },
  // 401, 403
  unauthenticated: { status: 401, title: 'No API key, and not signed in' },
  invalid_api_key: { status: 401, title: 'The API key is not valid' },
  insufficient_scope: { status: 403, title: 'Not allowed' },
  'org-frozen': { status: 403, title: 'The organization is frozen' },
  cross_site_request: { status: 403, title: 'The request comes from another site' },
  // 402
  insufficient_balance: { status: 402, title: 'The balance does not cover this' },
  quota_exceeded: { status: 402, title: 'A limit of the organization is reached' },
  // 404, 405
  not_found: { status: 404, title: 'Not found' },
  'not-found': { status: 404, title: 'Not found' },
  'deposit-not-found': { status: 404, title: 'Deposit not found' },
  model_not_found: { status: 404, title: 'Model not found' },
  method_not_allowed: { status: 405, title: 'Method not allowed' },
  // 409
  idempotency_conflict: { status: 409, title: 'The first request with this key is still running' },
  'subscription-exists': { status: 409, title: 'There is a subscription already' },
  price_changed: { status: 409, title: 'The price has changed' },
  payment_method_missing: { status: 409, title: 'No payment method is saved' },
  // 410, 413, 416, 422
  expired: { status: 410, title: 'The file has expired' },
  request_too_large: { status: 413, title: 'The request body is too large' },
  range_not_satisfiable: { status: 416, title: 'The range is outside of the file' },
  validation_failed: { status: 422, title: 'Validation failed' },
  invalid_gpu_type: { status: 422, title: 'There is no such GPU type' },
  disk_exceeds_offering: { status: 422, title: 'The disk is larger than is offered' },
  model_too_large: { status: 422, title: 'The model is too large for the GPUs' },
  gpu_vram_too_small: { status: 422, title: 'The GPUs have too little memory for the app' },
  idempotency_mismatch: { status: 422, title: 'The idempotency key was used for another request' },
  // 429
  // Envelope A has the first name for it, B the second: `http/envelopes.ts` turns the second into the first on paths of A.
  rate_limited: { status: 429, title: 'Too many requests' },
  rate_limit_exceeded: { status: 429, title: 'Too many requests' },
  stream_limit_exceeded: { status: 429, title: 'Too many open requests' },
  subscription_quota_exhausted: { status: 429, title: 'The quota of the plan is used up' },
  // 5xx
  internal_error: { status: 500, title: 'Internal error' },
  upstream_error: { status: 502, title: 'The model server sent a faulty answer' },
  upstream_response_too_large: { status: 502, title: 'The answer would be too large' },
  disk_unavailable: { status: 503, title: 'No disk is left' },
  creator_check_unavailable: { status: 503, title: 'The account can not be checked' },
  upstream_unavailable: { status: 503, title: 'Temporarily unavailable' },
  'payment-source-unavailable': { status: 503, title: 'Payments are unavailable' },
  upstream_timeout: { status: 504, title: 'The model server took too long' },
} as const satisfies Record<string, CatalogueEntry>

export type ErrorCode = keyof typeof ERROR_CATALOGUE

/** A refusal is a value: something that was asked for and is not done, with words for the person who asked. */
export interface Refusal {
  readonly code: ErrorCode
  /** For the client. Never holds a secret, a provider's own words, or another organization's data. */
  readonly message: string
  /** Envelope B only: the offending field as a path, such as `messages[0].content`. */
  readonly param?: string
  /** Seconds, at least 1; becomes `Retry-After`. */
  readonly retryAfterSeconds?: number
  /** Clients retry a 409 and a 429 by themselves; becomes `x-should-retry: false`, which tells them not to. */
  readonly retryIsUseless?: true
  /** Overrides the catalogue's status where one code has two (E14: envelope A's `internal_error` as 503). */
  readonly status?: number
}

/** Builds a refusal. */
export function refusal(code: ErrorCode, message: string, more: Omit<Refusal, 'code' | 'message'> = {}): Refusal {
  return { code, message, ...more }
}

/**
 * For the client of a request that another process has taken over, with its Idempotency-Key. Only the other process's effect and
 * answer are kept and charged; the client gets that answer by asking again.
 */
export const TAKEN_OVER = refusal(
  'idempotency_conflict',
  'Another process has taken over this request and its Idempotency-Key. Nothing was done or charged here. Wait for the seconds in ' +
    'Retry-After and send the request again, with the same key.',
  { retryAfterSeconds: 1 },
)

/** The HTTP status a refusal is answered with. */
export function statusOf(refused: Refusal): number {
  return refused.status ?? ERROR_CATALOGUE[refused.code].status
}

/** Envelope B's `type` for a status (E4). */
export function errorTypeOf(status: number): ErrorType {
  if (status === 401) return 'authentication_error'
  if (status === 402) return 'billing_error'
  if (status === 403) return 'permission_error'
  if (status === 429) return 'rate_limit_error'
  return status >= 500 ? 'api_error' : 'invalid_request_error'
}

/**
 * Carries a refusal out of a depth from which returning a value would clutter every caller. Thrown only below
 * `http/`, which catches it once. Anything else that is thrown is a bug and becomes a 500.
 */
export class Refused extends Error {
  readonly refusal: Refusal
  constructor(refused: Refusal) {
    super(refused.message)
    this.name = 'Refused'
    this.refusal = refused
  }
}

/** Throws {@link Refused}. */
export function refuse(code: ErrorCode, message: string, more: Omit<Refusal, 'code' | 'message'> = {}): never {
  throw new Refused(refusal(code, message, more))
}
