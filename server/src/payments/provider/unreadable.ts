import { Refused, refusal } from '../../lib/errors.ts'

/** For the caller, where the payment provider can't say something now. It is tried again. */
export const PROVIDER_AWAY = refusal(
  'payment-source-unavailable',
  'The payment provider can’t be asked at the moment. Nothing was charged; try again.',
  { retryAfterSeconds: 5 },
)

interface UnreadableObjectFacts {
  /** The payment provider's id of it; null where it is not told. */
  readonly object: string | null
  /** In our words, for the log. */
  readonly why: string
  /** True: the payment provider says that it has no such object. */
  readonly isMissing?: boolean
  /** The payment provider's id of its customer; left out where that is not known. */
  readonly customer?: string
}

/**
 * Thrown where one object can't be read or changed now, and the payment provider may well answer about others. A client gets the refusal
 * that it gets where the payment provider can't be asked at all.
 */
export class UnreadableObject extends Refused {
  readonly object: string | null
  readonly why: string
  readonly isMissing: boolean
  readonly customer: string | null
  constructor({ object, why, isMissing = false, customer }: UnreadableObjectFacts) {
    super(PROVIDER_AWAY)
    this.object = object
    this.why = why
    this.isMissing = isMissing
    this.customer = customer ?? null
  }
}

/** Returns whether an error says that the payment provider does not have this very object. */
export function isMissingObject(error: unknown, object: string): boolean {
  return error instanceof UnreadableObject && error.isMissing && error.object === object
}
