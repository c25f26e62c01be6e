/** The acts of a history, each with its weight. */

import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/lib/time.ts'
import { sweepRoom } from '../../src/payments/open.ts'
import type { ListedEvent } from '../../src/payments/provider/reversal.ts'
import { hearing } from '../../src/payments/reconcile/hearing.ts'
import { openSubscriptionCheckout } from '../../src/payments/subscriptions/checkout.ts'
import { noPrices } from '../../src/payments/subscriptions/prices.ts'
import { openTopUp } from '../../src/payments/topUps/topUp.ts'
import { restoreBackup, takeBackup } from '../backup.ts'
import { AUTO_PAY_ACTS } from './autoPayActs.ts'
import type { Act, PaymentWorld } from './paymentWorld.ts'
import { REVERSAL_ACTS } from './reversalActs.ts'
import type { SimulatedProcess } from './simulatedProcess.ts'

const ACTS: readonly Act[] = [
  [16, askForTopUp],
  [12, askForSubscription],
  [20, payOne],
  [5, settleOne],
  [6, changeSubscription],
  ...REVERSAL_ACTS,
  ...AUTO_PAY_ACTS,
  [16, tellOne],
  [11, (world) => sweep(world, world.process())],
  [11, passTime],
  [3, killOne],
  [3, turnClock],
  [3, backUp],
  [2, restore],
]

/** Does the next thing, by the seed. */
export async function actOnce(world: PaymentWorld): Promise<void> {
  const total = ACTS.reduce((sum, [weight]) => sum + weight, 0)
  let chance = world.random.between(1, total)
  for (const [weight, act] of ACTS) {
    chance -= weight
    if (chance <= 0) return await act(world)
  }
}

const URLS = { successUrl: 'https://shop.test/done', cancelUrl: 'https://shop.test/no' }

/** False now and then: another process has taken the request over, and nothing of this one may stay. */
const keeping = (world: PaymentWorld) => async () => (world.random.percent(4) ? [async () => false] : [])

function askForTopUp(world: PaymentWorld): void {
  const { organizationId, name } = world.customer()
  const amountCents = world.random.between(500, 5_000)
  const savesMethod = world.random.percent(80)
  const { dependencies } = world.process()
  world.start(`top-up: ${name} asks for ${amountCents}`, async () => {
    const wanted = { organizationId, amountCents, savesMethod, ...URLS, keep: keeping(world) }
    const { checkout } = await openTopUp(dependencies, wanted)
    if (checkout !== null) world.given.push(checkout)
  })
}

function askForSubscription(world: PaymentWorld): void {
  const { organizationId, name } = world.customer()
  const planKey = world.random.pick(['small', 'large'])
  const { dependencies } = world.process()
  world.start(`subscription: ${name} asks for ${planKey}`, async () => {
    const wanted = { organizationId, planKey, ...URLS, keep: keeping(world) }
    const { checkout } = await openSubscriptionCheckout({ ...dependencies, readPrice: noPrices }, wanted)
    world.given.push(checkout.id)
  })
}

/** A person has the address of a checkout by an answer, or because it is shown with the payment. */
async function payOne(world: PaymentWorld): Promise<void> {
  const { provider, random } = world
  const rows = await world.database.query<{ checkout: string }>(
    "select checkout from payments where state = 'open' order by created_at, id",
  )
  const known = [...world.given, ...rows.map(({ checkout }) => checkout)]
  const id = world.oneOf(known.filter((each) => provider.checkout(each).state === 'open'))
  if (id === undefined) return
  const delayed = random.percent(25)
  const discountCents = random.percent(20) ? random.between(1, 400) : 0
  world.say(`pays: ${id}${delayed ? ', by a way that takes days' : ''}`)
  provider.pay(id, { delayed, discountCents })
}

function settleOne(world: PaymentWorld): void {
  const waiting = [...world.provider.checkouts.values()].filter(({ state }) => state === 'processing')
  const checkout = world.oneOf(waiting)
  if (checkout === undefined) return
  const isPaid = world.random.percent(70)
  world.say(`settles: ${checkout.id} ${isPaid ? 'comes' : 'fails'}`)
  world.provider.settle(checkout.id, isPaid)
}

function changeSubscription(world: PaymentWorld): void {
  const subscription = world.oneOf([...world.provider.subscriptions.values()])
  if (subscription === undefined) return
  const change = world.random.pick([
    { cancelAtPeriodEnd: true },
    { cancelAtPeriodEnd: false },
    { failsNext: true },
    { failsNext: false },
    { price: 'price_large' },
    { price: 'price_gone' },
  ])
  world.say(`changes: ${subscription.id} ${JSON.stringify(change)}`)
  world.provider.change(subscription.id, change)
}

/** Tells a process of one of the events, not in their order; some are told again, and some never. */
function tellOne(world: PaymentWorld): void {
  const { random, telling } = world
  const { events } = world.provider
  if (events.length === 0 || telling === 'none') return
  const [event] = events.splice(random.between(0, events.length - 1), 1)
  if (event === undefined || (telling === 'some' && random.percent(40))) return
  if (random.percent(25)) events.push(event)
  tell(world, world.process(), event)
}

function tell(world: PaymentWorld, { dependencies }: SimulatedProcess, event: ListedEvent): void {
  const hear = hearing(dependencies)[event.kind]
  world.start(`callback: ${event.event} of ${event.object}`, async () => {
    // The payment provider sends a callback again that was not answered well.
    const again = () => world.provider.events.push(event)
    const heard = await hear(event.object, event.event).catch((error: unknown) => {
      again()
      throw error
    })
    if (heard === 'superseded') again()
  })
}

/** The periodic task of a process. */
export function sweep(world: PaymentWorld, { dependencies, startedAtMs }: SimulatedProcess): void {
  world.start('sweep', () => sweepRoom(dependencies, startedAtMs, () => false))
}

function passTime(world: PaymentWorld): void {
  const { random, provider, nowMs } = world
  const live = [...provider.subscriptions.values()].filter(({ status }) => status !== 'canceled')
  const subscription = random.percent(25) ? world.oneOf(live) : undefined
  if (subscription !== undefined) {
    // Just behind the end of a period, where a renewal may not be there yet.
    world.wait(Math.max(subscription.periodEndMs - nowMs, 0) + 2 * MINUTE_MS)
    return
  }
  const all = [10 * SECOND_MS, MINUTE_MS, MINUTE_MS, 6 * MINUTE_MS, HOUR_MS, 3 * HOUR_MS, DAY_MS, 16 * DAY_MS] as const
  world.wait(random.pick(all))
}

function killOne(world: PaymentWorld): void {
  if (!world.dies) return
  world.say('kill')
  world.process().kill()
}

function turnClock(world: PaymentWorld): void {
  if (!world.turnsClock) return
  const process = world.process()
  process.skewMs = world.random.pick([-DAY_MS, -HOUR_MS, -MINUTE_MS, MINUTE_MS, HOUR_MS, DAY_MS])
  world.latestSkewMs = Math.max(world.latestSkewMs, process.skewMs)
  world.say(`clock: turned by ${process.skewMs / SECOND_MS} s`)
}

async function backUp(world: PaymentWorld): Promise<void> {
  if (!world.restores || world.hasBackup) return
  await takeBackup(world.database)
  world.hasBackup = true
  world.say('backup')
}

/** The database is lost, and all processes with it; they start again on the backup. */
async function restore(world: PaymentWorld): Promise<void> {
  if (!world.hasBackup) return
  world.killAll()
  await world.turns.settled()
  await restoreBackup(world.database)
  world.hasBackup = false
  world.say('restore')
}
