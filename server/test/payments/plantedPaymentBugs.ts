/** Bugs as people make them, each an exchange in a file of `server/src/payments`: what the histories must be able to see. */

import type { PlantedExchange } from '../plantedCopy.ts'

export interface PlantedPaymentBug {
  readonly name: string
  /** More than one where one alone is caught by the code itself. */
  readonly exchanges: readonly [PlantedExchange, ...PlantedExchange[]]
}

export const PLANTED_PAYMENT_BUGS: readonly PlantedPaymentBug[] = [
  {
    name: 'a payment is credited again by each look',
    exchanges: [
      { file: 'topUps/store.ts', search: " and state <> 'paid' returning id", replace: ' returning id' },
      {
        file: 'topUps/apply.ts',
        search: `source: \`payment:\${payment.provider}:\${facts.payment}\``,
        replace: `source: \`payment:\${payment.provider}:\${facts.payment}:\${nowMs}\``,
      },
    ],
  },
  {
    name: 'the credit is what was asked for, and not what was paid',
    exchanges: [
      { file: 'topUps/apply.ts', search: 'BigInt(facts.amountCents)', replace: 'BigInt(payment.amountCents)' },
    ],
  },
  {
    name: 'the state commits before the credit',
    exchanges: [
      {
        file: 'topUps/refresh.ts',
        search: '  const refreshed = await database.transaction(async (tx): Promise<Refreshed> => {',
        replace: `  if (facts.state === 'paid') {
    const { updateRetrieved } = await import('./store.ts')
    const isFirst = await database.transaction((tx) => updateRetrieved(tx, payment.id, facts, { nowMs, dueAtMs: null }))
    if (!isFirst) return 'applied'
    const { grantCredit } = await import('../../billing/ledger/grantCredit.ts')
    await database.transaction((tx) => grantCredit(tx, random, {
      organizationId: payment.organizationId, amountMicrocents: BigInt(facts.amountCents) * 1000000n,
      source: \`payment:\${payment.provider}:\${facts.payment}\`, note: null, isPayment: true, atMs: nowMs,
    }))
    return 'applied'
  }
  const refreshed = await database.transaction(async (tx): Promise<Refreshed> => {`,
      },
    ],
  },
  {
    name: 'what a dead process has claimed is never looked at again',
    exchanges: [
      {
        file: 'topUps/store.ts',
        search: 'set due_at = $3::timestamptz from due',
        replace: 'set due_at = case when $3::timestamptz is null then now() end from due',
      },
    ],
  },
  {
    name: 'money that is on its way is not waited for',
    exchanges: [
      { file: 'provider/payment.ts', search: " || state === 'processing'", replace: '' },
      { file: 'topUps/store.ts', search: "in ('opening', 'open', 'processing')", replace: "in ('opening', 'open')" },
    ],
  },
  {
    name: 'the newer of two subscriptions that are paid stays',
    exchanges: [
      {
        file: 'provider/subscriptionFacts.ts',
        search: 'a.createdAtMs - b.createdAtMs',
        replace: 'b.createdAtMs - a.createdAtMs',
      },
    ],
  },
  {
    name: 'a second subscription that is paid is left alone',
    exchanges: [
      { file: 'provider/subscriptionFacts.ts', search: 'live.filter((each) => each !== entitling)', replace: '[]' },
    ],
  },
  {
    name: 'a payment for a subscription ends no new account',
    exchanges: [
      {
        file: 'subscriptions/refresh.ts',
        search: '  if (facts.isPaid) await noteFirstPayment(tx, organizationId, nowMs)\n',
        replace: '',
      },
    ],
  },
  {
    name: 'a subscription is not looked at after its period has ended',
    exchanges: [
      {
        file: 'subscriptions/refresh.ts',
        search: '  return nowMs + Math.min(Math.max(nowMs - periodEndMs, AFTER_END_MS), LOOK_MS)',
        replace: '  return null',
      },
    ],
  },
  {
    name: 'a second refund of a payment is taken for the first one',
    exchanges: [
      {
        file: 'reversals/apply.ts',
        search: `source: \`\${movement.kind}:\${provider}:\${movement.id}\``,
        replace: `source: \`\${movement.kind}:\${provider}:\${facts.payment}\``,
      },
    ],
  },
  {
    name: 'a refund is posted by each look',
    exchanges: [
      {
        file: 'reversals/apply.ts',
        search: 'if (!(await insertMovement(tx, provider, payment.id, movement, nowMs))) continue',
        replace: 'await insertMovement(tx, provider, payment.id, movement, nowMs)',
      },
      {
        file: 'reversals/apply.ts',
        search: `source: \`\${movement.kind}:\${provider}:\${movement.id}\``,
        replace: `source: \`\${movement.kind}:\${provider}:\${movement.id}:\${nowMs}\``,
      },
    ],
  },
  {
    name: 'refunds and disputes take more than the payment',
    exchanges: [
      { file: 'provider/reversal.ts', search: '  if (takenCents >= grossCents) return amountCents\n', replace: '' },
    ],
  },
  {
    name: 'tax is taken back as credit',
    exchanges: [
      {
        file: 'provider/reversal.ts',
        search: 'return roundedShare(takenCents, amountCents, grossCents)',
        replace: 'return Math.min(takenCents, amountCents)',
      },
    ],
  },
  {
    name: 'a dispute that was won stays a freeze',
    exchanges: [
      {
        file: 'reversals/apply.ts',
        search: '  if (isAgainstOperator(before) && !isAgainstOperator(state)) {',
        replace: '  if (before === null && isAgainstOperator(before) && !isAgainstOperator(state)) {',
      },
    ],
  },
  {
    name: 'a disputed subscription lives',
    exchanges: [
      {
        file: 'reversals/refresh.ts',
        search: '  if (subscription !== null && isDisputed) await provider.cancelSubscription(subscription)\n',
        replace: '',
      },
    ],
  },
  {
    name: 'a refund whose outcome is unknown is not carried out again',
    exchanges: [{ file: 'reconcile/reconcile.ts', search: '    await finishRefunds(dependencies)\n', replace: '' }],
  },
  {
    name: 'auto-pay asks under a new id where it does not know what came of the last payment',
    exchanges: [
      {
        file: 'autoPay/run.ts',
        search: '  const { id: paymentId, amountCents, createdAtMs } = attempt\n',
        replace: '  const { amountCents, createdAtMs } = attempt\n  const paymentId = uuidV7(clock.now(), random)\n',
      },
    ],
  },
  {
    name: 'refunds at the payment provider are found by callbacks alone',
    exchanges: [
      {
        file: 'reconcile/compare.ts',
        search: 'for await (const batch of batches(provider.listReversals(wider))) {',
        replace: 'for await (const batch of batches(provider.listReversals({ fromMs: 0, untilMs: 0 }))) {',
      },
    ],
  },
]

const OF_REVERSALS = /^(reversals|reconcile)\/|^provider\/reversal/

/** Returns whether a bug is one of refunds or disputes. */
export function isOfReversals({ exchanges: [first] }: PlantedPaymentBug): boolean {
  return OF_REVERSALS.test(first.file)
}
