/** The acts of a history with auto-pay: organizations agree to it, banks change their minds, money that was on its way comes, processes look. */

import { claimAutoPay } from '../../src/billing/admission/balance/autoPay.ts'
import { AUTO_PAY_LEASE_MS, runAutoPay } from '../../src/payments/autoPay/run.ts'
import { setAutoPay } from '../../src/payments/autoPay/set.ts'
import type { Act, PaymentWorld } from './paymentWorld.ts'
import type { SimulatedProcess } from './simulatedProcess.ts'

export const AUTO_PAY_ACTS: readonly Act[] = [
  [8, agree],
  [3, changeBank],
  [2, settleAutoPayment],
  [7, (world) => lookAtAutoPay(world, world.process())],
]

/** One payment takes any balance from nothing to the threshold: a second one is never due while the first is untouched. */
const THRESHOLD_CENTS = 20_000
const AMOUNT_CENTS = 25_000

function agree(world: PaymentWorld): void {
  const { organizationId, name } = world.customer()
  const isEnabled = world.random.percent(85)
  const { dependencies } = world.process()
  const terms = { thresholdCents: THRESHOLD_CENTS, amountCents: AMOUNT_CENTS, attemptsADay: 10 }
  world.start(`auto-pay: ${name} switches it ${isEnabled ? 'on' : 'off'}`, () =>
    setAutoPay({ ...dependencies, wake: () => {} }, organizationId, { isEnabled, ...terms }),
  )
}

function changeBank(world: PaymentWorld): void {
  const { provider, random } = world
  const customer = world.oneOf([...provider.customers.values()])
  if (customer === undefined) return
  const bank = random.pick(['pays', 'pays', 'waits', 'waits', 'refuses', 'asks'] as const)
  provider.autoPay.banks.set(customer, bank)
  world.say(`bank: of ${customer} ${bank}`)
}

function settleAutoPayment(world: PaymentWorld): void {
  const { autoPay } = world.provider
  const waiting = world.oneOf([...autoPay.made.values()].filter(({ facts }) => facts.state === 'processing'))
  if (waiting === undefined) return
  const isPaid = world.random.percent(70)
  world.say(`auto-pay settles: ${waiting.paymentId} ${isPaid ? 'comes' : 'fails'}`)
  autoPay.settle(waiting.paymentId, isPaid)
}

/** The runner of a process takes up what is due. */
export function lookAtAutoPay(world: PaymentWorld, { dependencies }: SimulatedProcess): void {
  const { database, clock } = dependencies
  world.start('auto-pay looks', async () => {
    const nowMs = clock.now()
    const untilMs = nowMs + AUTO_PAY_LEASE_MS
    for (const organizationId of await claimAutoPay(database, nowMs, untilMs, 2)) {
      const jobs = { ...dependencies, openLink: async () => null, onNoticed: () => {} }
      world.start(`auto-pay works: ${organizationId}`, () => runAutoPay(jobs, { organizationId, untilMs }))
    }
  })
}
