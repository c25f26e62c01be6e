/** Payments by saved payment methods at the payment provider in memory, as Stripe has them. */

import {
  type AutoPaymentFacts,
  GIVEN_UP,
  type ListedPayment,
  type NewAutoPayment,
  type OffSessionProvider,
} from '../../src/payments/provider/autoPayment.ts'
import type { PaidFacts } from '../../src/payments/provider/payment.ts'
import type { ProviderWindow } from '../../src/payments/provider/reversal.ts'

/** A bank's answer to payments by a saved method: the money comes at once or later, or not, or the person is to confirm. */
export type SimulatedBank = 'pays' | 'waits' | 'refuses' | 'asks'

/** A payment that was asked for. */
interface SimulatedAutoPayment {
  readonly paymentId: string
  readonly customer: string
  readonly amountCents: number
  readonly createdAtMs: number
  facts: AutoPaymentFacts
}

export interface AutoPaySurroundings {
  readonly nowMs: () => number
  readonly complain: (words: string) => void
  /** Notes money that came; what is known of it. */
  readonly take: (asked: Pick<NewAutoPayment, 'paymentId' | 'customer' | 'amountCents'>) => PaidFacts
  /** The payments of credit that a customer made at checkouts. */
  readonly atCheckouts: (customer: string) => readonly ListedPayment[]
  /** Whether refunds and disputes have left a payment alone. */
  readonly isUntouched: (payment: string) => boolean
}

export class SimulatedAutoPay implements OffSessionProvider {
  readonly made = new Map<string, SimulatedAutoPayment>()
  /** By customer; `pays` unless told. */
  readonly banks = new Map<string, SimulatedBank>()
  private readonly methods = new Map<string, string>()
  private readonly around: AutoPaySurroundings

  constructor(around: AutoPaySurroundings) {
    this.around = around
  }

  readonly saveMethod = async (customer: string, method: string): Promise<boolean> => {
    this.methods.set(customer, method)
    return true
  }

  readonly savedMethod = async (customer: string): Promise<string | null> => this.methods.get(customer) ?? null

  /** The same id is the same payment. A second one is wrong while money of another is there or on its way: each is worth a threshold. */
  readonly payOffSession = async ({ paymentId, customer, amountCents }: NewAutoPayment): Promise<AutoPaymentFacts> => {
    const before = this.made.get(paymentId)
    if (before !== undefined) return before.facts
    const needless = [...this.made.values()].find((each) => each.customer === customer && this.isEnough(each))
    if (needless !== undefined) this.around.complain(`${paymentId} was asked for, and ${needless.paymentId} is enough`)
    const asked = { paymentId, customer, amountCents }
    const facts = this.answerOf(asked)
    this.made.set(paymentId, { ...asked, createdAtMs: this.around.nowMs(), facts })
    return facts
  }

  /** None is ever `begun`. */
  readonly giveUp: OffSessionProvider['giveUp'] = async ({ paymentId }) => this.made.get(paymentId)?.facts ?? GIVEN_UP

  readonly listPayments = async (customer: string, sinceMs: number): Promise<readonly ListedPayment[]> => {
    const all = [...this.listed().filter((each) => each.customer === customer), ...this.around.atCheckouts(customer)]
    return all.filter(({ createdAtMs }) => createdAtMs >= sinceMs)
  }

  async *listAutoPayments({ fromMs, untilMs }: ProviderWindow): AsyncIterable<ListedPayment> {
    for (const each of this.listed()) if (each.createdAtMs >= fromMs && each.createdAtMs < untilMs) yield each
  }

  /** The money of a payment that waits comes, or not. */
  settle(paymentId: string, isPaid: boolean): void {
    const found = this.made.get(paymentId)
    if (found?.facts.state !== 'processing') return
    found.facts = isPaid
      ? { state: 'paid', ...this.around.take(found) }
      : { state: 'declined', reason: 'It was not paid.' }
  }

  private isEnough({ facts }: SimulatedAutoPayment): boolean {
    return facts.state === 'processing' || (facts.state === 'paid' && this.around.isUntouched(facts.payment))
  }

  private answerOf(asked: Pick<NewAutoPayment, 'paymentId' | 'customer' | 'amountCents'>): AutoPaymentFacts {
    switch (this.banks.get(asked.customer) ?? 'pays') {
      case 'pays':
        return { state: 'paid', ...this.around.take(asked) }
      case 'waits':
        return { state: 'processing' }
      case 'refuses':
        return { state: 'declined', reason: 'The bank refuses.' }
      case 'asks':
        return { state: 'authentication', reason: 'The bank asks the person.' }
    }
  }

  private listed(): ListedPayment[] {
    return [...this.made.values()].map((each) => ({ ...each, kind: 'auto_pay' }))
  }
}
