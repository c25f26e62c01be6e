import type { PlanPrice } from '../../catalog/plan.ts'
import type { OffSessionProvider } from './autoPayment.ts'
import type { CheckoutFacts, PaymentProviderName } from './payment.ts'
import type {
  ListedCheckout,
  ListedEvent,
  ListedReversal,
  NewRefund,
  PaymentOwner,
  ProviderWindow,
  ReversalFacts,
} from './reversal.ts'
import type { SubscriptionCheckoutFacts, SubscriptionFacts } from './subscriptionFacts.ts'

/** A checkout that is to be opened: a page where a person pays. */
export interface NewCheckout {
  /** Names the payment. The same id opens the same checkout, however often it is asked for. */
  readonly paymentId: string
  /** The payment provider's id of the customer. */
  readonly customer: string
  /** US cents, before tax. */
  readonly amountCents: number
  /** One line for the person who pays. */
  readonly description: string
  /** True when the payment method is kept for later payments: the page says so, and the person agrees by paying. */
  readonly savesMethod: boolean
  /** Where the person is sent afterwards. */
  readonly successUrl: string
  readonly cancelUrl: string
}

/** A checkout for a subscription that is to be opened. */
export interface NewPlanCheckout extends Pick<NewCheckout, 'customer' | 'successUrl' | 'cancelUrl'> {
  /** The same id opens the same checkout. */
  readonly id: string
  /** The payment provider's id of the plan's price. */
  readonly price: string
}

export interface OpenedCheckout {
  /** The payment provider's id of it. */
  readonly id: string
  /** The page where a person pays. Anybody who has the address may open it. */
  readonly url: string
}

/**
 * A service that takes money for the operator. A method that can't be carried out now throws `Refused` with
 * `payment-source-unavailable`, and its outcome is unknown: every method may be called again. No transaction is open meanwhile.
 */
export interface PaymentProvider extends OffSessionProvider {
  readonly name: PaymentProviderName
  /** Creates the customer of an organization; returns the payment provider's id of it, the same each time. */
  createCustomer(organizationId: string): Promise<string>
  openCheckout(wanted: NewCheckout): Promise<OpenedCheckout>
  /** Ends a checkout that nobody has paid. Does nothing to one that has ended. */
  expireCheckout(checkout: string): Promise<void>
  retrieveCheckout(checkout: string): Promise<CheckoutFacts>
  openSubscriptionCheckout(wanted: NewPlanCheckout): Promise<OpenedCheckout>
  retrieveSubscriptionCheckout(checkout: string): Promise<SubscriptionCheckoutFacts>
  retrieveSubscription(subscription: string): Promise<SubscriptionFacts>
  /**
   * Gives back all that was paid for the current period of a subscription, once, whether it has ended or not. Where nothing of that is
   * left, it does nothing. Returns whether that is final: false while money for the period is still on its way, such as a bank debit.
   */
  refundSubscription(subscription: string): Promise<boolean>
  /** Returns the page where a person manages subscriptions and cards. Anybody who has the address may open it. */
  openPortal(customer: string, returnUrl: string): Promise<string>
  /** Returns a price; null where it is gone, or is no price of a subscription. */
  readPrice(price: string): Promise<PlanPrice | null>
  /** Cancels a subscription at once. Does nothing to one that has ended. */
  cancelSubscription(subscription: string): Promise<void>
  /**
   * Refunds a payment, in whole or in part. Returns the payment provider's id of the refund; null where the payment provider will never
   * make it, such as one of more than is left.
   */
  refund(wanted: NewRefund): Promise<string | null>
  /** Retrieves a refund or a dispute; null where it is of no payment that Tollgate could know. */
  retrieveReversal(reversal: string): Promise<ReversalFacts | null>
  /** Returns what a payment was for, by the payment provider's id of it; null where that is none of ours. */
  retrieveOwner(payment: string): Promise<PaymentOwner | null>
  /** Lists the checkouts that were made within a window, in any order. */
  listCheckouts(window: ProviderWindow): AsyncIterable<ListedCheckout>
  /** Lists the refunds and disputes that were made within a window, in any order. */
  listReversals(window: ProviderWindow): AsyncIterable<ListedReversal>
  /** Lists the events within a window of which a callback tells, in any order, as far back as the payment provider keeps them. */
  listEvents(window: ProviderWindow): AsyncIterable<ListedEvent>
}
