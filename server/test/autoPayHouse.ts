/** Auto-pay with real PostgreSQL, the real `stripe` package, and the server that stands in for Stripe; time stands still. */

import { readAccountAutoPay } from '../src/billing/admission/balance/autoPay.ts'
import { adjustBalance } from '../src/billing/ledger/adjust.ts'
import { systemClock } from '../src/infra/clock.ts'
import { createLog } from '../src/infra/log.ts'
import { openClient } from '../src/infra/postgres/client.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { systemRandom } from '../src/infra/random.ts'
import type { RandomBytes } from '../src/lib/ids.ts'
import { MICROCENTS_PER_CENT } from '../src/lib/money.ts'
import { Secret } from '../src/lib/secret.ts'
import { mendAutoPay } from '../src/payments/autoPay/mend.ts'
import { readAutoPay, type ShownAutoPay } from '../src/payments/autoPay/read.ts'
import type { AutoPayDependencies } from '../src/payments/autoPay/run.ts'
import { createAutoPayRunner } from '../src/payments/autoPay/runner.ts'
import { type AutoPayRequest, setAutoPay } from '../src/payments/autoPay/set.ts'
import type { PaymentProvider } from '../src/payments/provider/provider.ts'
import { createStripe } from '../src/payments/stripe/client.ts'
import { createStripeProvider } from '../src/payments/stripe/provider.ts'
import { customerOf } from '../src/payments/topUps/customer.ts'
import { refreshPayment } from '../src/payments/topUps/refresh.ts'
import { openTopUp } from '../src/payments/topUps/topUp.ts'
import { TurnedClock } from './clock.ts'
import { makeCustomer } from './customer.ts'
import { freshDatabase } from './postgres.ts'
import type { StripeObject } from './stripeObjects.ts'
import type { SavedMethodBehaviour } from './stripeOffSession.ts'
import { openStripeServer, STRIPE_KEY, type StripeServer } from './stripeServer.ts'

const THRESHOLD_CENTS = 1_000
export const AMOUNT_CENTS = 2_500

const AGREED: AutoPayRequest = {
  isEnabled: true,
  thresholdCents: THRESHOLD_CENTS,
  amountCents: AMOUNT_CENTS,
  attemptsADay: 10,
}

export interface AutoPayHouse {
  readonly stripe: StripeServer
  readonly clock: TurnedClock
  readonly logs: string[]
  /** Of now: a restored backup is another one. */
  database(): Database
  readonly databaseUrl: string
  dependencies(dressed?: Partial<AutoPayDependencies>): AutoPayDependencies
  /** Stripe, asked by its package. */
  readonly provider: PaymentProvider
  /** An organization with so many cents whose saved payment method behaves so, and that has agreed to auto-pay. */
  customer(options: {
    readonly cents: number
    readonly later?: SavedMethodBehaviour
    readonly agrees?: Partial<AutoPayRequest> | null
  }): Promise<string>
  /** Pays a top-up of $5 at whose checkout the payment method is saved. */
  saveMethod(organizationId: string, later: SavedMethodBehaviour): Promise<void>
  /** `provider`: stands in for Stripe. */
  set(organizationId: string, request: AutoPayRequest, provider?: PaymentProvider): Promise<void>
  /** Takes so many cents by an adjustment. */
  take(organizationId: string, cents: number): Promise<void>
  /** A process looks until nothing is due. */
  look(dressed?: Partial<AutoPayDependencies>): Promise<void>
  /** Cents in the ledger. */
  balance(organizationId: string): Promise<number>
  shown(organizationId: string): Promise<ShownAutoPay>
  /** The payments that Stripe was asked for without the organization being present. */
  tried(organizationId: string): Promise<StripeObject[]>
  /** Those of them that are paid. */
  paid(organizationId: string): Promise<StripeObject[]>
  /** The amounts that auto-pay has credited, cents. */
  credited(organizationId: string): Promise<number[]>
  /** Makes a backup; what happens then is lost with `restore`. */
  backup(): Promise<() => Promise<void>>
  close(): Promise<void>
}

type Parts = ReturnType<ReturnType<typeof partsOf>>

/** Opens it. Call `close` in `afterAll`. */
export async function openAutoPayHouse({ automaticTax = false } = {}): Promise<AutoPayHouse> {
  const fresh = await freshDatabase()
  const stripe = await openStripeServer()
  const clock = new TurnedClock(Date.UTC(2030, 0, 15, 0, 30))
  stripe.nowMs = () => clock.now()
  const logs: string[] = []
  const log = createLog('debug', { write: (line) => void logs.push(line) })
  const client = createStripe({ secretKey: new Secret(STRIPE_KEY), apiUrl: stripe.url })
  const provider = createStripeProvider({ stripe: client, log, automaticTax })
  const kept = { database: fresh.database }
  const parts = partsOf(kept, { clock, random: systemRandom(), log, provider })
  const dependencies: AutoPayHouse['dependencies'] = (dressed = {}) => ({
    ...parts(),
    openLink: async (organizationId, amountCents) =>
      (await topUp(parts(), organizationId, amountCents, true)).checkoutUrl,
    onNoticed: () => {},
    ...dressed,
  })
  return {
    stripe,
    clock,
    logs,
    provider,
    database: () => kept.database,
    databaseUrl: fresh.url,
    dependencies,
    ...customersOf(parts, stripe),
    ...booksOf(parts, stripe),
    async look(dressed) {
      const isDue = async () => {
        const { database } = kept
        const rows = await database.query('select 1 from accounts where auto_pay_due_at <= $1', [new Date(clock.now())])
        return rows.length > 0
      }
      do await createAutoPayRunner(dependencies(dressed)).run()
      while (await isDue())
    },
    backup: () => backup(kept, fresh.url),
    async close() {
      await kept.database.close()
      await fresh.drop()
      await stripe.close()
    },
  }
}

/** Where the database of now is kept. */
interface Kept {
  database: Database
}

function partsOf(
  kept: Kept,
  rest: { clock: TurnedClock; random: RandomBytes; log: ReturnType<typeof createLog>; provider: PaymentProvider },
) {
  return () => ({ database: kept.database, ...rest })
}

function topUp(parts: Parts, organizationId: string, amountCents: number, isMending = false) {
  return openTopUp(parts, {
    organizationId,
    amountCents,
    savesMethod: true,
    isMending,
    successUrl: 'https://t.test/done',
    cancelUrl: 'https://t.test/no',
    keep: async () => [],
  })
}

/** The acts of customers: one is made, saves a payment method, sets auto-pay; `take` takes money off its balance. */
function customersOf(
  parts: () => Parts,
  stripe: StripeServer,
): Pick<AutoPayHouse, 'customer' | 'saveMethod' | 'set' | 'take'> {
  const saveMethod: AutoPayHouse['saveMethod'] = async (organizationId, later) => {
    const { checkout, id } = await topUp(parts(), organizationId, 500)
    stripe.pay(checkout ?? '', { later })
    await refreshPayment({ ...parts(), onMethodSaved: mendAutoPay(parts().clock) }, { id })
  }
  const set: AutoPayHouse['set'] = (organizationId, request, provider = parts().provider) =>
    setAutoPay({ ...parts(), provider, wake: () => {} }, organizationId, request)
  const take: AutoPayHouse['take'] = async (organizationId, cents) => {
    const { database, random, clock } = parts()
    const source = `adjustment:${crypto.randomUUID()}`
    const amountMicrocents = BigInt(-cents) * MICROCENTS_PER_CENT
    const entry = { organizationId, amountMicrocents, source, note: 'test', atMs: clock.now() }
    await adjustBalance(database, random, entry)
  }
  return {
    saveMethod,
    set,
    take,
    async customer({ cents, later = 'succeeds', agrees = {} }) {
      const { organizationId } = await makeCustomer(parts().database, { cents }, parts().clock)
      await saveMethod(organizationId, later)
      await take(organizationId, 500)
      if (agrees !== null) await set(organizationId, { ...AGREED, ...agrees })
      return organizationId
    },
  }
}

/** The state of payments in our books and at Stripe. */
function booksOf(
  parts: () => Parts,
  stripe: StripeServer,
): Pick<AutoPayHouse, 'balance' | 'shown' | 'tried' | 'paid' | 'credited'> {
  const tried = async (organizationId: string) => {
    const customer = await customerOf(parts(), organizationId)
    const all = stripe.all('payment_intent').filter((intent) => intent['customer'] === customer)
    return all.filter((intent) => intent['setup_future_usage'] === undefined)
  }
  return {
    tried,
    paid: async (organizationId) => (await tried(organizationId)).filter(({ status }) => status === 'succeeded'),
    async balance(organizationId) {
      const account = await readAccountAutoPay(parts().database, organizationId)
      return Number(account?.balanceMicrocents) / 1e6
    },
    shown: (organizationId) => readAutoPay(parts().database, organizationId),
    async credited(organizationId) {
      const rows = await parts().database.query<{ amount: bigint }>(
        `select amount_microcents as amount from ledger_entries where organization_id = $1::uuid and note like 'auto-pay %'`,
        [organizationId],
      )
      return rows.map(({ amount }) => Number(amount) / 1e6)
    },
  }
}

/** Copies the database; the result puts the copy in its place. */
async function backup(kept: Kept, url: string): Promise<() => Promise<void>> {
  const name = new URL(url).pathname.slice(1)
  const copy = `${name}_copy`
  const make = (made: string, of: string) => `create database ${made} template ${of} strategy file_copy`
  await whileClosed(kept, url, [make(copy, name)])
  return () => whileClosed(kept, url, [`drop database ${name} with (force)`, make(name, copy), `drop database ${copy}`])
}

/** Runs statements while nobody uses the database, and opens it again. */
async function whileClosed(kept: Kept, url: string, statements: readonly string[]): Promise<void> {
  await kept.database.close()
  const server = new URL(url)
  server.pathname = '/postgres'
  const admin = openClient(server.href, { maxConnections: 1, clock: systemClock, applicationName: 'backup' })
  for (const statement of statements) await admin.query(statement)
  await admin.close()
  kept.database = openClient(url, { maxConnections: 4, clock: systemClock, applicationName: 'auto-pay' })
}
