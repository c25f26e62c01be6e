/** Durable charges a second on one organization, beside charging row by row. README.md explains it. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Subprocess } from 'bun'
import { ensureChargePartition } from '../src/billing/charges/partitions/prepare.ts'
import { findImbalances } from '../src/billing/charges/store.ts'
import { systemClock } from '../src/infra/clock.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { makeCustomer, makeKey } from '../test/customer.ts'
import { freshDatabase, startTestPostgres, TEST_POSTGRES_VARIABLE } from '../test/postgres.ts'
import { BUCKETS_PER_MS, type Order, type ProcessPlan, type Report, type Way } from './chargesPlan.ts'
import { describeConditions, describeMachine } from './machine.ts'
import { atLeastOne, readOptions } from './options.ts'
import { cpuSeconds, processTree } from './processes.ts'
import { median } from './statistics.ts'

const USAGE = `usage: bun server/bench/charges.ts [--processes 4] [--rounds 3] [--seconds 5] [--open 96] [--connections 8] [--keys 4]
  --open         calls open at once in each process      --connections  of each process, for single-row charging`

const { text } = readOptions(
  USAGE,
  { processes: '4', rounds: '3', seconds: '5', open: '96', connections: '8', keys: '4' },
  [],
)
const processCount = atLeastOne('processes', text['processes'])
const rounds = atLeastOne('rounds', text['rounds'])
const seconds = atLeastOne('seconds', text['seconds'])
const openCalls = atLeastOne('open', text['open'])
const connections = atLeastOne('connections', text['connections'])
const keyCount = atLeastOne('keys', text['keys'])

/** More than any run charges. */
const CREDIT_CENTS = 1_000_000_000
const WARMUP_SECONDS = 2

/** One measurement of one way. */
interface Figures {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Microseconds of processor time a charge. */
  readonly processesCpu: number
  readonly databaseCpu: number
}

interface Worker {
  readonly child: Subprocess
  readonly ready: Promise<unknown>
  order(order: Order): Promise<Report>
}

const postgres = await startTestPostgres({ durable: true })
process.env[TEST_POSTGRES_VARIABLE] = postgres.url
const fresh = await freshDatabase()
const folder = await mkdtemp(join(tmpdir(), 'tollgate-bench-'))
const workers: Worker[] = []
try {
  await measure()
} finally {
  for (const { child } of workers) child.kill('SIGKILL')
  await Promise.all(workers.map(({ child }) => child.exited))
  await fresh.drop()
  await postgres.stop()
  await rm(folder, { recursive: true })
}

async function measure(): Promise<void> {
  const { database } = fresh
  console.log(describeMachine())
  console.log(`before: ${describeConditions(folder)}`)
  console.log(await durability(database))
  const first = await makeCustomer(database, { cents: CREDIT_CENTS })
  const { organizationId } = first
  const keyIds = [first.id]
  while (keyIds.length < keyCount) keyIds.push((await makeKey(database, organizationId)).id)
  await prepareSingle(database, organizationId)
  for (let slot = 0; slot < processCount; slot += 1) {
    workers.push(startWorker({ url: fresh.url, organizationId, keyIds, slot, openCalls, connections }))
  }
  await Promise.all(workers.map(({ ready }) => ready))
  await runOnce('batched', WARMUP_SECONDS)
  await runOnce('single', WARMUP_SECONDS)
  const results: Record<Way, Figures[]> = { batched: [], single: [] }
  for (let round = 0; round < rounds; round += 1) {
    // Each round begins with the other way, so that none always follows a checkpoint of the other.
    for (const way of round % 2 === 0 ? (['batched', 'single'] as const) : (['single', 'batched'] as const)) {
      const figures = await runOnce(way, seconds)
      results[way].push(figures)
      console.log(`round ${round + 1}, ${way}: ${describe(figures)}`)
    }
  }
  summarize(results)
  console.log(`after: ${describeConditions(folder)}`)
  console.log(await checkBooks(database, organizationId))
}

function startWorker(plan: ProcessPlan): Worker {
  let told: (message: unknown) => void = () => {}
  const next = () =>
    new Promise<unknown>((resolve) => {
      told = resolve
    })
  const ready = next()
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'chargesProcess.ts'), JSON.stringify(plan)], {
    stdin: 'ignore',
    stdout: 'inherit',
    stderr: 'inherit',
    ipc: (message) => told(message),
  })
  const ended = child.exited.then((code) => {
    throw new Error(`a process of the bench ended with ${code}`)
  })
  ended.catch(() => {})
  return {
    child,
    ready: Promise.race([ready, ended]),
    order(order) {
      const report = next()
      child.send(order)
      return Promise.race([report, ended]) as Promise<Report>
    },
  }
}

async function runOnce(way: Way, forSeconds: number): Promise<Figures> {
  const database = await databasePids()
  const own = () => cpuSeconds(workers.map(({ child }) => child.pid))
  const [ownBefore, databaseBefore] = [own(), cpuSeconds(database())]
  const reports = await Promise.all(workers.map((worker) => worker.order({ way, seconds: forSeconds })))
  const charges = reports.reduce((sum, report) => sum + report.charges, 0)
  return {
    perSecond: charges / forSeconds,
    p50Ms: percentile(reports, 0.5),
    p99Ms: percentile(reports, 0.99),
    processesCpu: ((own() - ownBefore) * 1e6) / charges,
    databaseCpu: ((cpuSeconds(database()) - databaseBefore) * 1e6) / charges,
  }
}

/** The server's processes; its connections come and go. */
async function databasePids(): Promise<() => number[]> {
  const [row] = await fresh.database.query<{ file: string }>(`select pg_read_file('postmaster.pid') as file`)
  const postmaster = Number(row?.file.split('\n')[0])
  return () => processTree(postmaster)
}

function percentile(reports: readonly Report[], share: number): number {
  const total = reports.reduce((sum, report) => sum + report.charges, 0)
  const buckets = reports[0]?.histogram.length ?? 0
  let seen = 0
  for (let bucket = 0; bucket < buckets; bucket += 1) {
    for (const { histogram } of reports) seen += histogram[bucket] ?? 0
    if (seen >= share * total) return bucket / BUCKETS_PER_MS
  }
  return Number.NaN
}

function describe({ perSecond, p50Ms, p99Ms, processesCpu, databaseCpu }: Figures): string {
  const cpu = `CPU a charge: processes ${processesCpu.toFixed(1)} µs, database ${databaseCpu.toFixed(1)} µs`
  return `${perSecond.toFixed(0)} charges/s, p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms; ${cpu}`
}

function summarize({ batched, single }: Readonly<Record<Way, readonly Figures[]>>): void {
  const of = (figures: readonly Figures[], pick: (each: Figures) => number) => median(figures.map(pick))
  const ratios = batched.map((each, round) => each.perSecond / (single[round]?.perSecond ?? Number.NaN))
  const [low, high] = [Math.min(...ratios), Math.max(...ratios)]
  console.log('')
  for (const [name, figures] of [
    ['as calls are charged', batched],
    ['row by row', single],
  ] as const) {
    const p99 = of(figures, (each) => each.p99Ms).toFixed(1)
    console.log(`${name}: ${of(figures, (each) => each.perSecond).toFixed(0)} durable charges/s, p99 ${p99} ms`)
  }
  console.log(`ratio: ${median(ratios).toFixed(1)} [${low.toFixed(1)}–${high.toFixed(1)}]`)
}

/** Returns the settings that make a charge durable here; throws when one of them is off. */
async function durability(database: Database): Promise<string> {
  const [row] = await database.query<{ fsync: string; commit: string; pages: string }>(
    `select current_setting('fsync') as fsync, current_setting('synchronous_commit') as commit,
       current_setting('full_page_writes') as pages`,
  )
  if (row?.fsync !== 'on' || row.commit !== 'on') throw new Error('the database does not flush what it commits')
  const settings = `fsync ${row.fsync}, synchronous_commit ${row.commit}, full_page_writes ${row.pages}`
  return `${processCount} processes, ${openCalls} calls open in each; ${settings}`
}

/** The rival's tables: the same row and the same indexes, and one row for the balance. */
async function prepareSingle(database: Database, organizationId: string): Promise<void> {
  await ensureChargePartition(database, systemClock.now())
  await database.query('create table bench_single_charges (like charges including all)')
  await database.query(
    'create table bench_single_accounts (organization_id uuid primary key, balance_microcents bigint) with (fillfactor = 70)',
  )
  await database.query('insert into bench_single_accounts values ($1::uuid, 0)', [organizationId])
}

/** Every charge is in the sums of its hour and day, and in the balance. */
async function checkBooks(database: Database, organizationId: string): Promise<string> {
  const imbalances = await findImbalances(database)
  const [sums] = await database.query<{ charges: bigint; hours: bigint; days: bigint }>(
    `select (select count(*) from charges) as charges, (select sum(requests) from usage_hours)::bigint as hours,
       (select sum(requests) from usage_days)::bigint as days`,
  )
  const agree = imbalances.length === 0 && sums?.charges === sums?.hours && sums?.charges === sums?.days
  if (!agree) throw new Error(`the books of ${organizationId} disagree`)
  return `${sums?.charges} charges; the books agree`
}
