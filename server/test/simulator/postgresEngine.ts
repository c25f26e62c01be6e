/** The histories of the simulator on a real server: every statement is PostgreSQL's, and those under way at once race. */

import { systemClock } from '../../src/infra/clock.ts'
import { openClient } from '../../src/infra/postgres/client.ts'
import type { Database, SqlParameter, Transaction } from '../../src/infra/postgres/database.ts'
import { openSession } from '../../src/infra/postgres/session.ts'
import type { Engine, EngineSession, EngineTransaction, Snapshot } from './engine.ts'
import type { AccountRow } from './model/books.ts'

/** For statements of five processes and an operator, some of them waiting for a lock. */
const CONNECTIONS = 24

export class PostgresEngine implements Engine {
  readonly isConcurrent = true
  readonly version = 0
  private readonly url: string
  private readonly pool: Database
  private readonly underWay = new Set<Promise<unknown>>()

  constructor(url: string) {
    this.url = url
    this.pool = openClient(url, { maxConnections: CONNECTIONS, clock: systemClock, applicationName: 'simulator' })
  }

  query(text: string, parameters: readonly SqlParameter[]): Promise<unknown[]> {
    return this.track(this.pool.query(text, parameters))
  }

  async begin(): Promise<EngineTransaction> {
    const opened = Promise.withResolvers<Transaction>()
    const ended = Promise.withResolvers<void>()
    const whole = this.track(
      this.pool.transaction((tx) => {
        opened.resolve(tx)
        return ended.promise
      }),
    )
    whole.catch((error: unknown) => opened.reject(error))
    const tx = await opened.promise
    return {
      query: (text, parameters) => this.track(tx.query(text, parameters)),
      commit: () => {
        ended.resolve()
        return whole
      },
      rollback: () => {
        ended.reject(new Error('rolled back'))
        return whole.catch(() => {})
      },
    }
  }

  async openSession(): Promise<EngineSession> {
    const session = await openSession(this.url, systemClock)
    return {
      query: (text, parameters) => this.track(session.query(text, parameters)),
      tryLock: (lockClass, id) => this.track(session.tryLock(lockClass, id)),
      close: () => this.track(session.close()),
    }
  }

  blocker(): () => boolean {
    return () => false
  }

  async snapshot(): Promise<Snapshot> {
    const [row] = await this.pool.query<{ books: Wire }>(SNAPSHOT)
    if (row === undefined) throw new Error('no answer to a snapshot')
    return fromWire(row.books)
  }

  /** Empties the books for the next history, once everything of the one before has ended. */
  async reset(): Promise<void> {
    await Promise.allSettled([...this.underWay])
    const partitions = await this.pool.query<{ name: string }>(
      "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'charges'::regclass",
    )
    await this.pool.query([...partitions.map(({ name }) => `drop table ${name}`), ...EMPTY].join('; '))
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.underWay])
    await this.pool.close()
  }

  private track<T>(work: Promise<T>): Promise<T> {
    this.underWay.add(work)
    const forget = () => void this.underWay.delete(work)
    work.then(forget, forget)
    return work
  }
}

const EMPTY = [
  'holds',
  'instances',
  'instance_hours',
  'accounts',
  'account_shares',
  'unfolded_spend',
  'account_minutes',
  'charges',
  'ledger_entries',
  'usage_hours',
]
  .concat(['usage_days', 'slot_charges', 'dead_charges', 'processes', 'notices', 'organizations'])
  .map((table) => `delete from ${table}`)

/** Amounts as text and instants in milliseconds: what JSON holds without loss. */
const SNAPSHOT = `
  select json_build_object(
    'accounts', (select coalesce(json_agg(json_build_object('organizationId', organization_id,
        'balance', balance_microcents::text, 'granted', shares_microcents::text,
        'held', held_microcents::text, 'instancesHeld', instances_held_microcents::text, 'burn', burn_microcents::text,
        'day', day, 'daySpent', day_spent_microcents::text, 'month', month, 'monthSpent', month_spent_microcents::text,
        'newUntilMs', extract(epoch from new_until) * 1000, 'hourSpent', hour_spent_microcents::text,
        'monthlyLimit', monthly_limit_microcents::text, 'dailyLimit', daily_limit_microcents::text,
        'enforcement', enforcement, 'autoTerminateHours', auto_terminate_hours,
        'toldBelow', told_below_microcents::text)), '[]') from accounts),
    'shares', (select coalesce(json_agg(json_build_array(organization_id, slot, granted_microcents::text)), '[]')
      from account_shares),
    'slices', (select coalesce(json_agg(json_build_array(organization_id, slot, extract(epoch from minute) * 1000,
        spent_microcents::text)), '[]') from unfolded_spend),
    'entries', (select coalesce(json_agg(json_build_array(organization_id, amount_microcents::text, kind, source)), '[]')
      from ledger_entries),
    'charges', (select coalesce(json_agg(json_build_array(id, organization_id, key_id,
        round(extract(epoch from admitted_at) * 1000), cost_microcents::text)), '[]') from charges),
    'holds', (select coalesce(json_agg(json_build_array(id, organization_id, amount_microcents::text)), '[]') from holds),
    'instances', (select coalesce(json_agg(json_build_array(id, organization_id, principal_id, hour_microcents::text,
        state in ('creating', 'running'), settled_second, held_second)), '[]') from instances),
    'dead', (select coalesce(json_agg(charge->>'keyId'), '[]') from dead_charges)) as books`

type Amount = string
type Nullable<T> = { [Key in keyof T]: T[Key] extends bigint | null ? Amount | null : T[Key] }

interface Wire {
  readonly accounts: readonly Nullable<AccountRow>[]
  readonly shares: readonly [string, number, Amount][]
  readonly slices: readonly [string, number, number, Amount][]
  readonly entries: readonly [string, Amount, string, string][]
  readonly charges: readonly [string, string, string, number, Amount][]
  readonly holds: readonly [string, string, Amount][]
  readonly instances: readonly [string, string, string, Amount, boolean, number, number][]
  readonly dead: readonly string[]
}

function fromWire(books: Wire): Snapshot {
  const amount = (text: string | null) => (text === null ? null : BigInt(text))
  return {
    accounts: books.accounts.map((row) => ({
      ...row,
      balance: BigInt(row.balance ?? 0),
      granted: BigInt(row.granted ?? 0),
      held: BigInt(row.held ?? 0),
      instancesHeld: BigInt(row.instancesHeld ?? 0),
      burn: BigInt(row.burn ?? 0),
      daySpent: BigInt(row.daySpent ?? 0),
      monthSpent: BigInt(row.monthSpent ?? 0),
      hourSpent: BigInt(row.hourSpent ?? 0),
      monthlyLimit: amount(row.monthlyLimit),
      dailyLimit: amount(row.dailyLimit),
      toldBelow: amount(row.toldBelow),
    })),
    shares: books.shares.map(([organizationId, slot, granted]) => ({
      organizationId,
      slot,
      granted: BigInt(granted),
    })),
    unfoldedSpend: books.slices.map(([organizationId, slot, minuteMs, spent]) => ({
      organizationId,
      slot,
      minuteMs,
      spent: BigInt(spent),
    })),
    entries: books.entries.map(([organizationId, text, kind, source]) => ({
      organizationId,
      amount: BigInt(text),
      kind,
      source,
    })),
    charges: books.charges.map(([id, organizationId, keyId, admittedAtMs, cost]) => ({
      id,
      organizationId,
      keyId,
      admittedAtMs,
      cost: BigInt(cost),
    })),
    holds: books.holds.map(([id, organizationId, amount]) => ({ id, organizationId, amount: BigInt(amount) })),
    instances: books.instances.map(([id, organizationId, keyId, hour, isLive, settledSecond, heldSecond]) => ({
      ...{ id, organizationId, keyId, isLive, settledSecond, heldSecond },
      hourMicrocents: BigInt(hour),
    })),
    deadKeyIds: books.dead,
  }
}
