/** The money domain over a real database, as many processes of it as a test wants, with faults between the two. */

import { readFigures } from '../src/billing/admission/accounts/figures.ts'
import { createLimitNoter } from '../src/billing/admission/accounts/noteLimit.ts'
import { openAccount } from '../src/billing/admission/balance/balance.ts'
import { type OpenMoney, openMoney } from '../src/billing/admission/openMoney.ts'
import type { SendReclaim } from '../src/billing/admission/wants.ts'
import type { Charge, HeldCharge } from '../src/billing/charges/charge.ts'
import { findImbalances } from '../src/billing/charges/store.ts'
import { Writer } from '../src/billing/charges/writer.ts'
import { grantCredit } from '../src/billing/ledger/grantCredit.ts'
import { openPlans } from '../src/billing/plans/plans.ts'
import type { Plan } from '../src/catalog/plan.ts'
import { DEFAULT_FIXED_SETTINGS } from '../src/catalog/settings.ts'
import { inTransaction } from '../src/identity/audit/inTransaction.ts'
import { createOrganization } from '../src/identity/organizations/create.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { isNothingDone, isRefusedData } from '../src/infra/postgres/faults.ts'
import { systemRandom } from '../src/infra/random.ts'
import { uuidV7 } from '../src/lib/ids.ts'
import { type Clock, DAY_MS } from '../src/lib/time.ts'
import { type FreshDatabase, freshDatabase } from './postgres.ts'
import { SILENCE } from './silence.ts'
import { turnedDatabase } from './turnedDatabase.ts'

/** A fault of one statement or transaction: none, it never arrives, or its answer is lost. */
export type Fault = 'none' | 'before' | 'after'

export interface House extends FreshDatabase {
  /** An organization with an account and so much credit. */
  organization(microcents: bigint, more?: { readonly newSinceMs?: number }): Promise<string>
  grant(organizationId: string, microcents: bigint): Promise<void>
  /** A charge that the database takes. */
  charge(organizationId: string, costMicrocents: bigint, more?: Partial<HeldCharge>): HeldCharge
  /** Nothing is lost or made: balance, ledger, charges and shares agree. */
  imbalances(): Promise<readonly unknown[]>
  /** Returns the sum of an organization's charges, and their number. */
  spent(organizationId: string): Promise<{ microcents: bigint; charges: number }>
}

/** Opens it by one clock; the database's own is the same, unless another is given. */
export async function openHouse(clock: Clock, databaseClock: Pick<Clock, 'now'> = clock): Promise<House> {
  const fresh = await freshDatabase()
  const database = turnedDatabase(fresh.database, databaseClock)
  const random = systemRandom()
  let made = 0
  const grant = async (organizationId: string, microcents: bigint) => {
    const source = `test:${uuidV7(clock.now(), random)}`
    await database.transaction((tx) =>
      grantCredit(tx, random, {
        organizationId,
        amountMicrocents: microcents,
        source,
        note: null,
        isPayment: false,
        atMs: clock.now(),
      }),
    )
  }
  return {
    ...fresh,
    database,
    grant,
    async organization(microcents, { newSinceMs } = {}) {
      made += 1
      const name = `organization ${made}`
      const isNew = newSinceMs !== undefined
      const itsClock = isNew ? { ...clock, now: () => newSinceMs } : clock
      const organization = await inTransaction(database, null, (tx) =>
        createOrganization(
          tx,
          { clock: itsClock, randomBytes: random, openAccount },
          { name, standing: isNew ? 'new' : 'established' },
        ),
      )
      if (!organization.ok) throw new Error(organization.refusal.message)
      if (microcents > 0n) await grant(organization.value.id, microcents)
      return organization.value.id
    },
    charge: (organizationId, costMicrocents, more = {}) => ({
      chargeId: uuidV7(clock.now(), random),
      admittedAtMs: clock.now(),
      organizationId,
      keyId: '00000000-0000-4000-8000-000000000001',
      model: 'svc/test',
      tier: 'serverless',
      priceHash: new Uint8Array(32),
      usage: { promptTokens: 3, cachedPromptTokens: 1, completionTokens: 2 },
      estimated: false,
      costMicrocents,
      heldMicrocents: more.costMicrocents ?? costMicrocents,
      target: 'mock/test',
      outcome: 'completed',
      ...more,
    }),
    imbalances: () => findImbalances(database),
    async spent(organizationId) {
      const rows = await database.query<{ spent: bigint; charges: bigint }>(
        `select coalesce(sum(cost_microcents), 0)::bigint as spent, count(*) as charges
         from charges where organization_id = $1::uuid`,
        [organizationId],
      )
      return { microcents: rows[0]?.spent ?? 0n, charges: Number(rows[0]?.charges ?? 0n) }
    },
  }
}

/** The money part of one process, as `app/app.ts` builds it. */
export interface Till extends OpenMoney {
  readonly writer: Writer
  readonly dead: readonly Charge[]
  /** Calls whose plan's meter could not be read. */
  unreadablePlans: number
  /** True when it owns its slot. */
  owns: boolean
}

/** A turned clock runs ahead of the database: no charge is late unless the test is about that. */
const UNHURRIED_MS = 7 * DAY_MS

/** How long a call waits for its charge, as servers have it. */
export const CHARGE_DEADLINE_MS = DEFAULT_FIXED_SETTINGS.chargeDeadlineMs

export function openTill(
  given: Database,
  slot: number | (() => number),
  clock: Clock,
  sendReclaim: SendReclaim = () => {},
  lowBalanceMicrocents = 0n,
  plans: readonly Plan[] = [],
  chargeDeadlineMs = UNHURRIED_MS,
): Till {
  // The database's clock is in time with that of the process.
  const database = turnedDatabase(given, clock)
  const dead: Charge[] = []
  const planned = openPlans({
    database,
    clock,
    offered: () => plans,
    onUnreadable: () => {
      till.unreadablePlans += 1
    },
  })
  const writer = new Writer({
    database,
    slot: typeof slot === 'number' ? () => slot : slot,
    clock,
    random: systemRandom(),
    chargeDeadlineMs,
    log: SILENCE,
    errors: { isRefusedData, isNothingDone },
    onDead: (charge) => dead.push(charge),
    betweenBatches: [planned.reads],
    onEnded: planned.end,
    lowBalanceMicrocents,
  })
  const onLimitReached = createLimitNoter({ database, clock, log: SILENCE, onNoticed: () => {} })
  const money = openMoney({
    clock,
    random: systemRandom(),
    renewer: writer,
    ownsSlot: () => till.owns,
    sendReclaim,
    readFigures: (organizationId, nowMs) => readFigures(database, organizationId, nowMs),
    onLimitReached,
    plans: planned,
  })
  const till: Till = Object.assign(money, { writer, dead, owns: true, unreadablePlans: 0 })
  return till
}

/** A database whose every statement and transaction meets the fault that `next` names. */
export function withFaults(database: Database, next: () => Fault): Database {
  const meet = async <T>(work: () => Promise<T>): Promise<T> => {
    const fault = next()
    if (fault === 'before') throw new Error('the connection was closed')
    const result = await work()
    if (fault === 'after') throw new Error('the connection was closed, and nobody knows what became of it')
    return result
  }
  return {
    query: (text, parameters) => meet(() => database.query(text, parameters)),
    transaction: (work) => meet(() => database.transaction(work)),
    close: () => database.close(),
  }
}

/** A database that counts the renewals of shares: each is one statement. */
export function countRenewals(database: Database): { readonly database: Database; readonly renewals: () => number } {
  let renewals = 0
  const counted: Database = {
    ...database,
    query: (text, parameters) => {
      if (text.includes('wanted as (')) renewals += 1
      return database.query(text, parameters)
    },
  }
  return { database: counted, renewals: () => renewals }
}

/** A clock that runs so many times as fast as the wall's: for tests of many retries against a real database. */
export class FastClock implements Clock {
  private readonly epochMs: number
  private readonly speed: number
  private readonly startedMs = performance.now()

  constructor(epochMs: number, speed = 100) {
    this.epochMs = epochMs
    this.speed = speed
  }

  now(): number {
    return Math.floor(this.epochMs + this.monotonicMs())
  }

  monotonicMs(): number {
    return (performance.now() - this.startedMs) * this.speed
  }

  after(delayMs: number, callback: () => void): () => void {
    const timer = setTimeout(callback, delayMs / this.speed)
    return () => clearTimeout(timer)
  }
}
