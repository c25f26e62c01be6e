/** The events of the server that stands in for Stripe: what it would tell of by callbacks, and lists. */

import type { StripeFields as Fields, StripeObject } from './stripeObjects.ts'
import type { StripeState } from './stripeServer.ts'

/** Notes an event of an object as it is now. */
export function tellStripe(state: StripeState, type: string, object: StripeObject): void {
  state.make('evt', 'event', { type, data: { object: { ...object } } })
}

/** The types by which Stripe tells of a change of an object that no person on its pages has made by the acts of the server. */
const CHANGED: Readonly<Record<string, string>> = {
  subscription: 'customer.subscription.updated',
  refund: 'refund.updated',
  dispute: 'charge.dispute.updated',
}

/** Changes an object by other ways, and tells of it where Stripe does. */
export function changeObject(state: StripeState, id: string, changes: Record<string, unknown>): void {
  const object = state.find(id)
  Object.assign(object, changes)
  const type = CHANGED[object.object]
  if (type !== undefined) tellStripe(state, type, object)
}

/** Whether an event is of one of the types that a request asks for, where it asks for some. */
export function isOfTypes(event: StripeObject, fields: Fields): boolean {
  const types = [...fields].filter(([name]) => name.startsWith('types[')).map(([, type]) => type)
  return types.length === 0 || types.includes(String(event['type']))
}
