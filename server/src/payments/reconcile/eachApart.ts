import { UnreadableObject } from '../provider/unreadable.ts'
import type { PaymentDifference } from './difference.ts'

/** An object in a list of the payment provider's. */
interface ListedObject {
  /** The payment provider's id of it. */
  readonly object: string
  readonly createdAtMs: number
}

/**
 * Looks at objects of a list, one after the other, and yields what the looks yield. One that can't be read now is yielded as such, and the
 * others are looked at all the same. Throws where the payment provider can't be asked at all.
 */
export async function* eachApart<T extends ListedObject>(
  listed: Iterable<T>,
  look: (each: T) => AsyncIterable<PaymentDifference>,
): AsyncIterable<PaymentDifference> {
  for (const each of listed) {
    try {
      yield* look(each)
    } catch (error) {
      if (!(error instanceof UnreadableObject)) throw error
      yield unreadable(each, error)
    }
  }
}

/** Returns an object that can't be read now, as a difference. */
export function unreadable({ object, createdAtMs }: ListedObject, failure: UnreadableObject): PaymentDifference {
  const why = failure.object === null || failure.object === object ? failure.why : `${failure.object}: ${failure.why}`
  return {
    kind: 'unreadable',
    object,
    organizationId: null,
    amountCents: null,
    isMended: false,
    unreadable: { why, createdAtMs },
  }
}
