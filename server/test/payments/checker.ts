/** The rules that the books of payments must keep: the payment provider's list is the judge. */

import type { Plan } from '../../src/catalog/plan.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { MICROCENTS_PER_CENT } from '../../src/lib/money.ts'
import type { SimulatedProvider } from './simulatedProvider.ts'

export interface Customer {
  readonly organizationId: string
  /** For people. */
  readonly name: string
}

interface Entry {
  readonly source: string
  readonly amount: bigint
}

/** A payment of credit as the ledger must have it. */
interface ExpectedPayment {
  readonly amountMicrocents: bigint
  /** The amount that remains of it, once all refunds and disputes are posted. */
  readonly leftMicrocents: bigint
  /** The sources of its entries. */
  readonly credit: string
  readonly movements: ReadonlySet<string>
  /** A refund of it has failed. */
  readonly hasComeBack: boolean
}

function expectedOf(provider: SimulatedProvider, { organizationId }: Customer): ExpectedPayment[] {
  const customer = provider.customers.get(organizationId)
  const paid = [...provider.payments.values()].filter((each) => each.customer === customer && each.kind === 'credit')
  return paid.map(({ id, amountCents, grossCents }) => {
    const leftGross = Math.min(Math.max(provider.reversals.leftOf(id), 0), grossCents)
    // The same part is taken of the credit as of the money, rounded to a cent.
    const takenCents = Math.floor(((grossCents - leftGross) * amountCents) / grossCents + 0.5)
    const moved = provider.reversals.of(id).flatMap(({ movements }) => movements)
    return {
      amountMicrocents: BigInt(amountCents) * MICROCENTS_PER_CENT,
      leftMicrocents: BigInt(amountCents - takenCents) * MICROCENTS_PER_CENT,
      credit: `payment:stripe:${id}`,
      movements: new Set(moved.map((movement) => `${movement.kind}:stripe:${movement.id}`)),
      hasComeBack: provider.reversals.of(id).some(({ state }) => state === 'failed'),
    }
  })
}

/** Returns the sum of a payment's ledger entries. */
function postedOf(entries: readonly Entry[], { credit, movements }: ExpectedPayment): bigint {
  const own = entries.filter(({ source }) => source === credit || movements.has(source))
  return own.reduce((sum, { amount }) => sum + amount, 0n)
}

async function entriesOf(database: Database, { organizationId }: Customer): Promise<Entry[]> {
  return database.query<Entry>(
    'select source, amount_microcents as amount from ledger_entries where organization_id = $1::uuid order by source',
    [organizationId],
  )
}

/** Returns what is wrong at any moment: movements that the payment provider does not have, and balances that are not their sum. */
export async function checkNow(
  database: Database,
  provider: SimulatedProvider,
  customers: readonly Customer[],
): Promise<string[]> {
  const problems: string[] = []
  for (const customer of customers) {
    const entries = await entriesOf(database, customer)
    const payments = expectedOf(provider, customer)
    for (const { source, amount } of entries) {
      const payment = payments.find(({ credit, movements }) => credit === source || movements.has(source))
      const isWrong = payment?.credit === source && payment.amountMicrocents !== amount
      if (payment === undefined || isWrong)
        problems.push(`${customer.name}: the provider has no ${source} of ${amount}`)
    }
    for (const payment of payments) {
      const posted = postedOf(entries, payment)
      const isWithin = posted >= 0n && posted <= payment.amountMicrocents
      if (!isWithin) problems.push(`${customer.name}: ${payment.credit} of ${payment.amountMicrocents} is ${posted}`)
    }
    const [account] = await database.query<{ balance: bigint }>(
      'select balance_microcents as balance from accounts where organization_id = $1::uuid',
      [customer.organizationId],
    )
    const sum = entries.reduce((total, { amount }) => total + amount, 0n)
    if (account?.balance !== sum) problems.push(`${customer.name}: balance ${account?.balance}, ledger ${sum}`)
  }
  return problems
}

export interface AtEnd {
  readonly database: Database
  readonly provider: SimulatedProvider
  readonly customers: readonly Customer[]
  readonly plans: readonly Plan[]
  readonly nowMs: number
  /** True when days have passed since the trouble: by then refunds that failed after they had succeeded are seen. */
  readonly hasDays: boolean
}

/** Returns what is wrong once all callbacks and looks are through: the ledger is the provider's list, and so are subscriptions. */
export async function checkAtEnd(end: AtEnd): Promise<string[]> {
  const { database, provider, customers, plans, nowMs, hasDays } = end
  const problems = await checkNow(database, provider, customers)
  for (const customer of customers) {
    const entries = await entriesOf(database, customer)
    for (const payment of expectedOf(provider, customer)) {
      const posted = postedOf(entries, payment)
      const { credit, leftMicrocents } = payment
      if (!entries.some(({ source }) => source === credit)) problems.push(`${customer.name}: there is no ${credit}`)
      else if (posted !== leftMicrocents && (hasDays || !payment.hasComeBack)) {
        problems.push(`${customer.name}: of ${credit} is left ${posted}, at the provider ${leftMicrocents}`)
      }
    }
    problems.push(...(await checkFreezes(database, provider, customer)))
    problems.push(...(await checkAutoPay(database, customer)))
    problems.push(...(await checkStanding(database, provider, customer, nowMs)))
    problems.push(...(await checkSubscription(database, provider, customer, plans)))
  }
  problems.push(...(await checkSurplus(database, provider)))
  return [...problems, ...provider.complaints]
}

/** A surplus subscription has ended, and somebody asked for what was paid for it: a refund, even one that failed, or a dispute (B9). */
async function checkSurplus(database: Database, provider: SimulatedProvider): Promise<string[]> {
  const rows = await database.query<{ subscription: string }>(
    'select subscription from payment_subscriptions where is_surplus order by subscription',
  )
  const found = rows.flatMap(({ subscription: id }) => provider.subscriptions.get(id) ?? [])
  return found.flatMap(({ id, status, lastPayment }) => [
    ...(status === 'canceled' ? [] : [`${id} is surplus and lives`]),
    ...(provider.reversals.of(lastPayment).length > 0 ? [] : [`${id} is surplus and was never refunded`]),
  ])
}

/** The first payment ends the limits of a new organization (K2), and nothing else does. */
async function checkStanding(
  database: Database,
  provider: SimulatedProvider,
  customer: Customer,
  nowMs: number,
): Promise<string[]> {
  const [account] = await database.query<{ new_until: Date | null }>(
    'select new_until from accounts where organization_id = $1::uuid',
    [customer.organizationId],
  )
  const id = provider.customers.get(customer.organizationId)
  const hasPaid = [...provider.payments.values()].some((payment) => payment.customer === id)
  const newUntilMs = account?.new_until?.getTime() ?? null
  const isWrong = hasPaid ? newUntilMs !== null && newUntilMs > nowMs : newUntilMs === null
  return isWrong ? [`${customer.name}: has paid: ${hasPaid}, is new until: ${account?.new_until}`] : []
}

/** A balance below the threshold has an instant at which auto-pay looks at it. */
async function checkAutoPay(database: Database, { organizationId, name }: Customer): Promise<string[]> {
  const rows = await database.query(
    `select 1 from accounts where organization_id = $1::uuid and auto_pay_due_at is null
       and balance_microcents < auto_pay_threshold_microcents`,
    [organizationId],
  )
  return rows.length > 0 ? [`${name}: the balance is below the threshold, and auto-pay never looks at it`] : []
}

/** Disputes that are open or lost freeze an organization, and nothing else does; they end the subscriptions that they are about. */
async function checkFreezes(database: Database, provider: SimulatedProvider, customer: Customer): Promise<string[]> {
  const problems: string[] = []
  const id = provider.customers.get(customer.organizationId)
  const disputes = [...provider.reversals.all.values()].filter(
    ({ payment, state }) => provider.payments.get(payment)?.customer === id && (state === 'open' || state === 'lost'),
  )
  const rows = await database.query<{ cause: string }>(
    'select cause from organization_freezes where organization_id = $1::uuid order by cause',
    [customer.organizationId],
  )
  const found = rows.map(({ cause }) => cause)
  const expected = disputes.map((dispute) => `stripe:${dispute.id}`).sort()
  if (`${found}` !== `${expected}`)
    problems.push(`${customer.name}: is frozen by ${found}, at the provider ${expected}`)
  for (const { payment } of disputes) {
    const subscription = provider.subscriptions.get(provider.payments.get(payment)?.object ?? '')
    if (subscription !== undefined && subscription.status !== 'canceled') {
      problems.push(`${customer.name}: ${subscription.id} is disputed and lives`)
    }
  }
  return problems
}

/** At most one subscription lives at the payment provider while one entitles (B9), and it is what the organization has here. */
async function checkSubscription(
  database: Database,
  provider: SimulatedProvider,
  { organizationId, name }: Customer,
  plans: readonly Plan[],
): Promise<string[]> {
  const all = provider.subscriptionsOf(provider.customers.get(organizationId) ?? '')
  const live = all.filter(({ status }) => status !== 'canceled')
  const active = live.filter(({ status }) => status === 'active')
  const entitling = active.filter(({ price }) => plans.some(({ paymentPrice }) => paymentPrice === price))
  const [row] = await database.query<{ plan: string; status: string; period_end: Date; cancels: boolean }>(
    `select plan, status, period_end, cancel_at_period_end as cancels from subscriptions where organization_id = $1::uuid`,
    [organizationId],
  )
  // One at a price of no plan entitles to nothing (B10): the newest of such is shown, and none of them is one too many.
  const current = entitling[0] ?? (active.length > 0 ? live.at(-1) : undefined)
  if (current === undefined) return row?.status === 'active' ? [`${name}: is subscribed by nothing`] : []
  const problems: string[] = []
  if (live.length > 1 && entitling.length > 0)
    problems.push(`${name}: has ${live.length} subscriptions: ${live.map(({ id }) => id).join(', ')}`)
  const plan = plans.find(({ paymentPrice }) => paymentPrice === current.price)?.key ?? `price:${current.price}`
  const expected = [plan, current.status, current.periodEndMs, current.cancelAtPeriodEnd]
  const found = [row?.plan, row?.status, row?.period_end.getTime(), row?.cancels]
  if (`${found}` !== `${expected}`) problems.push(`${name}: is subscribed as ${found}, at the provider ${expected}`)
  return problems
}

/**
 * Has the database note each state of a payment or checkout that its state before forbids: one that is over comes back only as paid,
 * and what is paid or complete is never left.
 */
export async function watchStates(database: Database): Promise<void> {
  await database.query(`
    create table if not exists state_breaches (words text not null);
    create or replace function note_state_breach() returns trigger language plpgsql as $$
    begin
      -- One that was never opened here, and was after all, is taken over.
      if old.state = 'failed' and new.state = 'open' and old.checkout is null and new.checkout is not null then
        return new;
      end if;
      if old.state in ('paid', 'complete') or (old.state in ('failed', 'expired') and new.state <> 'paid') then
        insert into state_breaches values (format('%s %s was %s and is %s', tg_table_name, new.id, old.state, new.state));
      end if;
      return new;
    end $$;
    create or replace trigger watch_states before update on payments
      for each row when (old.state <> new.state) execute function note_state_breach();
    create or replace trigger watch_states before update on subscription_checkouts
      for each row when (old.state <> new.state) execute function note_state_breach();
    delete from state_breaches`)
}

/** Returns what was noted. */
export async function findStateBreaches(database: Database): Promise<string[]> {
  return (await database.query<{ words: string }>('select words from state_breaches')).map(({ words }) => words)
}

/** Returns the payments and checkouts that still wait for something, although nothing can be paid any more. */
export async function findUnfinished(database: Database): Promise<string[]> {
  const rows = await database.query<{ id: string; state: string }>(
    `select id::text, state from payments where state in ('opening', 'open', 'processing')
     union all select id::text, state from subscription_checkouts where state in ('opening', 'open')
     union all select id::text, 'to be refunded' from payments where refund_request is not null
     union all select subscription, 'surplus and not refunded' from payment_subscriptions
       where is_surplus and not is_refunded`,
  )
  return rows.map(({ id, state }) => `${id} is ${state} for ever`)
}
