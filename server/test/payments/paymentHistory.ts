/** One history: what happens in an order that a seed decides, and what must be true meanwhile and at its end. */

import type { Database } from '../../src/infra/postgres/database.ts'
import { HOUR_MS, MINUTE_MS } from '../../src/lib/time.ts'
import { unfreezeOrganization } from '../../src/payments/freezes/freezes.ts'
import { actOnce, sweep } from './acts.ts'
import { lookAtAutoPay } from './autoPayActs.ts'
import { checkAtEnd, checkNow, findStateBreaches, findUnfinished, watchStates } from './checker.ts'
import { PaymentWorld, SIMULATED_PLANS } from './paymentWorld.ts'
import type { SimulatedProcess } from './simulatedProcess.ts'

/** A history that does not end by then has a loop in it. */
const STEPS_MOST = 20_000

/** Emptied before each history: ids begin anew in each. */
const TABLES = [
  'auto_pay',
  'notices',
  'payment_movements',
  'payment_reversals',
  'payment_reconciliations',
  'organization_freezes',
  'payments',
  'payment_callbacks',
  'subscription_checkouts',
  'payment_subscriptions',
  'payment_customers',
  'subscriptions',
  'ledger_entries',
  'accounts',
  'organizations',
]

export interface PaymentHistoryResult {
  readonly problems: readonly string[]
  readonly trace: readonly string[]
  /** How often each thing happened. */
  readonly tally: ReadonlyMap<string, number>
}

/** Runs a history to its end, or to the first problem. `database`: migrated; its tables of payments are emptied. */
export async function runPaymentHistory(seed: number, database: Database): Promise<PaymentHistoryResult> {
  await database.query(
    ['drop schema if exists backup cascade', ...TABLES.map((table) => `delete from ${table}`)].join('; '),
  )
  await watchStates(database)
  const world = new PaymentWorld(seed, database)
  await world.makeCustomers()
  // The first comparison looks back 30 days, which may be less than the first leap of a history: it is done before the trouble.
  const troubles = { ...world.troubles }
  world.calmDown()
  await sweepAll(world, world.newProcess())
  Object.assign(world.troubles, troubles)
  const problems = await happen(world).catch((error: unknown) => [String(error instanceof Error ? error.stack : error)])
  if (problems.length > 0) {
    // Nothing of it may meet the next history.
    world.killAll()
    await world.turns.settled()
    await sayRows(world)
  }
  return { problems, trace: world.trace, tally: world.tally }
}

async function happen(world: PaymentWorld): Promise<string[]> {
  const { turns, random } = world
  let acts = random.between(15, 60)
  for (let step = 0; acts > 0 || turns.waitingCount > 0; step += 1) {
    if (step > STEPS_MOST) return ['the history does not end']
    await turns.settled()
    const acting = turns.waitingCount === 0 || (acts > 0 && random.percent(12))
    if (!acting) turns.releaseOne()
    else if (acts > 0) {
      acts -= 1
      await actOnce(world)
      const problems = acts % 5 === 0 && !turns.isLoose ? await checkSoFar(world) : []
      if (problems.length > 0) return problems
    }
  }
  return calm(world)
}

async function checkSoFar({ turns, database, provider, customers }: PaymentWorld): Promise<string[]> {
  await turns.settled()
  return [...(await checkNow(database, provider, customers)), ...(await findStateBreaches(database))]
}

/** The trouble is over. Within the times that the room promises everything must be as the payment provider has it. */
async function calm(world: PaymentWorld): Promise<string[]> {
  const { database, provider, customers, random } = world
  world.say('calm')
  world.calmDown()
  for (const { id } of [...provider.checkouts.values()]) provider.settle(id, random.percent(70))
  // From now on banks say at once how it is: else a payment may wait at the end.
  for (const customer of provider.customers.values())
    provider.autoPay.banks.set(customer, random.pick(['pays', 'refuses']))
  for (const id of provider.autoPay.made.keys()) provider.autoPay.settle(id, random.percent(70))
  const process = world.newProcess()
  const check = async (hasDays: boolean) => [
    ...(await checkAtEnd({ database, provider, customers, plans: SIMULATED_PLANS, nowMs: world.nowMs, hasDays })),
    ...(await findStateBreaches(database)),
  ]
  // Clocks that were ahead have put the next look off.
  if (world.latestSkewMs > 0) world.wait(world.latestSkewMs)
  // A renewal may be late, and is then asked for once an hour.
  for (let minutes = 0; minutes < 140; minutes += 20) {
    world.wait(20 * MINUTE_MS)
    await sweepAll(world, process)
  }
  const problems = await check(false)
  if (problems.length > 0) return problems
  for (let hours = 0; hours < 39; hours += 13) {
    world.wait(13 * HOUR_MS)
    await sweepAll(world, process)
    await sweepAll(world, process)
  }
  const problemsOfDays = await check(true)
  if (problemsOfDays.length > 0) return problemsOfDays
  // A payment by auto-pay that was written down before a freeze is asked for when the freeze ends (B11).
  for (const { organizationId } of customers) await unfreezeOrganization(database, organizationId, 'dispute')
  world.wait(20 * MINUTE_MS)
  await sweepAll(world, process)
  return [...(await checkNow(database, provider, customers)), ...(await findUnfinished(database))]
}

async function sweepAll(world: PaymentWorld, process: SimulatedProcess): Promise<void> {
  const { turns } = world
  sweep(world, process)
  lookAtAutoPay(world, process)
  await turns.settled()
  while (turns.waitingCount > 0) {
    turns.releaseOne()
    await turns.settled()
  }
}

/** Adds the rows to the trace. */
async function sayRows({ database, trace }: PaymentWorld): Promise<void> {
  for (const table of TABLES) {
    for (const row of await database.query<object>(`select * from ${table}`)) {
      const text = JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? Number(value) : value))
      trace.push(`${table}: ${text}`)
    }
  }
}
