import { Counter, Histogram, type Registry } from 'prom-client'
import { CALL_SECONDS } from './callMetrics.ts'

const COMMIT_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]
const BATCH_CHARGES = [1, 2, 5, 10, 20, 50, 100, 200, 500]

/** The counts of admission, of the writer of charges, and of the verification of the books. Times are in milliseconds. */
export interface MoneyMetrics {
  /** A call could not be admitted from memory: the time until it was admitted or refused. */
  waitedForMoney(milliseconds: number): void
  refusedForMoney(code: string): void
  posted(charges: number, milliseconds: number): void
  dead(): void
  /** The database has lost so many charges that it had confirmed. */
  lostCharges(count: number): void
  /** Charges were not posted in time: so many were withdrawn, and so many stand. */
  late(charges: { readonly withdrawn: number; readonly standing: number }): void
  /** The verification of the books has found so many disagreements. */
  disagreed(count: number): void
  unreadable(): void
  /** The day of an account lay in the future of the database's clock, and was set back. */
  dayMended(): void
  /** A plan's meter could not be read, and a call counts as pay-as-you-go. */
  planUnreadable(): void
  /** A node of a chain did not answer a question well: `node` is its place in the settings. */
  rpcFailed(chain: string, node: number, trouble: string): void
}

export function createMoneyMetrics(registry: Registry): MoneyMetrics {
  const registers = [registry]
  const histogram = (name: string, help: string, buckets: number[]) => new Histogram({ name, help, buckets, registers })
  const counter = (name: string, help: string, labelNames: string[] = []) =>
    new Counter({ name, help, labelNames, registers })
  const waits = histogram(
    'tollgate_money_wait_seconds',
    'Time that calls spent asking the database or waiting for other calls before they were admitted or refused.',
    CALL_SECONDS,
  )
  const refusals = counter('tollgate_money_refusals_total', 'Calls refused for want of money, by code.', ['code'])
  const batches = histogram('tollgate_charge_batch_size', 'Charges posted in one transaction.', BATCH_CHARGES)
  const commits = histogram(
    'tollgate_charge_commit_seconds',
    'Time until a batch of charges was known to be posted, retries included.',
    COMMIT_SECONDS,
  )
  const dead = counter(
    'tollgate_dead_charges_total',
    'Charges that the database refused and that an operator must look at. Alert on any increase.',
  )
  const lost = counter('tollgate_lost_charges_total', 'Confirmed charges that the database has lost. Alert on any.')
  const late = counter(
    'tollgate_late_charges_total',
    'Charges that were not posted in time: withdrawn, or standing and posted later. Alert on any increase.',
    ['outcome'],
  )
  // So that the first of them is an increase for an alarm.
  for (const outcome of ['withdrawn', 'standing']) late.inc({ outcome }, 0)
  const disagreements = counter(
    'tollgate_ledger_disagreements_total',
    'Disagreements that the daily verification of the books has found. Alert on any increase.',
  )
  const unreadable = counter(
    'tollgate_gates_unreadable_total',
    'Calls refused or cut because the gates on money could not be read.',
  )
  const daysMended = counter(
    'tollgate_account_days_mended_total',
    "Accounts whose day lay in the future of the database's clock and was set back. Alert on any increase.",
  )
  const planUnreadable = counter(
    'tollgate_plan_meters_unreadable_total',
    "Calls charged as pay-as-you-go because their plan's meter could not be read.",
  )
  const rpcErrors = counter(
    'tollgate_deposit_rpc_errors_total',
    'Requests that a node of a chain failed or answered wrongly. `node` is its place in the list of the settings.',
    ['chain', 'node', 'trouble'],
  )
  return {
    rpcFailed: (chain, node, trouble) => rpcErrors.inc({ chain, node: String(node), trouble }),
    waitedForMoney: (milliseconds) => waits.observe(milliseconds / 1_000),
    refusedForMoney: (code) => refusals.inc({ code }),
    posted: (count, milliseconds) => {
      batches.observe(count)
      commits.observe(milliseconds / 1_000)
    },
    dead: () => dead.inc(),
    lostCharges: (count) => lost.inc(count),
    late({ withdrawn, standing }) {
      late.inc({ outcome: 'withdrawn' }, withdrawn)
      late.inc({ outcome: 'standing' }, standing)
    },
    disagreed: (count) => disagreements.inc(count),
    unreadable: () => unreadable.inc(),
    dayMended: () => daysMended.inc(),
    planUnreadable: () => planUnreadable.inc(),
  }
}
