/** Refunds and disputes of the payment provider in memory, as Stripe has them. */

import type {
  Movement,
  MovementKind,
  NewRefund,
  ReversalFacts,
  ReversalState,
} from '../../src/payments/provider/reversal.ts'

export interface SimulatedReversal {
  readonly id: string
  readonly kind: MovementKind
  /** The payment provider's id of the payment. */
  readonly payment: string
  /** With tax. */
  readonly amountCents: number
  readonly createdAtMs: number
  readonly request: string | null
  readonly movements: Movement[]
  state: ReversalState
  /** When its state changed last. */
  changedAtMs: number
}

export interface ReversalSurroundings {
  readonly nowMs: () => number
  readonly newId: (prefix: string) => string
  readonly tell: (reversal: string) => void
  /** Returns the amount that was paid, with tax; null where there is no such payment. */
  readonly grossOf: (payment: string) => number | null
}

export class SimulatedReversals {
  readonly all = new Map<string, SimulatedReversal>()
  private readonly around: ReversalSurroundings

  constructor(around: ReversalSurroundings) {
    this.around = around
  }

  /** Returns how much of a payment is with the operator, with tax. Below 0: it was refunded and disputed. */
  leftOf(payment: string): number {
    const moved = this.of(payment).flatMap(({ movements }) => movements)
    return moved.reduce((sum, { amountCents }) => sum + amountCents, this.around.grossOf(payment) ?? 0)
  }

  of(payment: string): SimulatedReversal[] {
    return [...this.all.values()].filter((each) => each.payment === payment)
  }

  /** Makes a refund once for each request. Null: it is of more than is left. */
  refund({ payment, amountCents, request }: Omit<NewRefund, 'request'> & { request: string | null }): string | null {
    const before = this.of(payment).find((each) => request !== null && each.request === request)
    if (before !== undefined) return before.id
    if (amountCents < 1 || amountCents > this.leftOf(payment)) return null
    const refund = this.make('re', { kind: 'payment_refund', payment, amountCents, request, state: 'pending' })
    this.move(refund, refund.id, -amountCents)
    return refund.id
  }

  /** A refund that waits succeeds; one that has not failed may still do so, and its money comes back. */
  endRefund(id: string, state: 'succeeded' | 'failed'): void {
    const refund = this.all.get(id)
    if (refund === undefined || refund.state === 'failed' || refund.state === state) return
    if (state === 'failed') this.move(refund, `${id}:failed`, refund.amountCents)
    this.turn(refund, state)
  }

  /** A customer's bank disputes a payment. An inquiry asks only. */
  dispute(payment: string, amountCents: number, isInquiry: boolean): string {
    const state = isInquiry ? 'inquiry' : 'open'
    const dispute = this.make('du', { kind: 'payment_dispute', payment, amountCents, request: null, state })
    if (!isInquiry) this.move(dispute, this.around.newId('txn'), -amountCents)
    return dispute.id
  }

  /** An inquiry becomes a dispute or is closed, and a dispute is won or lost. */
  moveDispute(id: string, isGood: boolean): void {
    const dispute = this.all.get(id)
    if (dispute?.state === 'inquiry') {
      if (!isGood) this.move(dispute, this.around.newId('txn'), -dispute.amountCents)
      this.turn(dispute, isGood ? 'won' : 'open')
    } else if (dispute?.state === 'open') {
      if (isGood) this.move(dispute, this.around.newId('txn'), dispute.amountCents)
      this.turn(dispute, isGood ? 'won' : 'lost')
    }
  }

  factsOf(id: string): ReversalFacts {
    const found = this.all.get(id)
    if (found === undefined) throw new Error(`the payment provider has no ${id}`)
    const { payment, state, movements, createdAtMs, request } = found
    return { reversal: id, payment, state, movements: [...movements], foreignCurrency: null, createdAtMs, request }
  }

  private make(
    prefix: string,
    made: Pick<SimulatedReversal, 'kind' | 'payment' | 'amountCents' | 'request' | 'state'>,
  ): SimulatedReversal {
    const nowMs = this.around.nowMs()
    const id = this.around.newId(prefix)
    const reversal = { id, ...made, createdAtMs: nowMs, changedAtMs: nowMs, movements: [] }
    this.all.set(id, reversal)
    this.around.tell(id)
    return reversal
  }

  private move({ movements, kind }: SimulatedReversal, id: string, amountCents: number): void {
    movements.push({ id, kind, amountCents })
  }

  private turn(reversal: SimulatedReversal, state: ReversalState): void {
    reversal.state = state
    reversal.changedAtMs = this.around.nowMs()
    this.around.tell(reversal.id)
  }
}
