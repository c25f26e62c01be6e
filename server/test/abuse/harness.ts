/**
 * One gateway process over a real PostgreSQL, an attacker's organization and a customer who does nothing wrong beside it. Every
 * attack is carried out twice: against a server that discards its bytes while the customer calls an idle gateway, then against
 * the gateway itself.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeCustomer, makeKey, type TestKey } from '../customer.ts'
import { EVENT_LOOP_FILE, type Held } from '../eventLoop.ts'
import { freshDatabase } from '../postgres.ts'
import { preload } from '../preload.ts'
import { startServer } from '../server.ts'
import { until } from '../until.ts'
import type { Attack, Target } from './attack.ts'
import { loadAttack } from './loadAttacks.ts'
import { startTenant, type TenantSeen } from './tenant.ts'

const WATCH = join(import.meta.dirname, '../eventLoop.ts')
const BUN = join(import.meta.dirname, '../../../node_modules/.bin/bun')

/** Keys of the attacker; bounds of a key are thereby told from bounds of a process. */
const ATTACKER_KEYS = 4
/** $1 for each attack: one that has to be paid for soon ends. */
const ATTACKER_CENTS = 100
/** An organization may keep so much: four answers of 12 MB and no more than one beyond. Less than the preset, so that an attack gets there. */
export const KEPT_BYTES_MOST = 64 << 20
/** Where people sign in, keys are made and revoked by interface too. */
const SETTINGS = `accounts: {}\nkept_answers: { bytes: ${KEPT_BYTES_MOST}, bytes_per_dollar: 0 }\n`
const TENANT_CENTS = 10_000_000
const WARM_UP_MS = 3_000
/** For what an attack leaves behind to be given back. */
const SETTLE_MS = 2_000
/** An attack that goes on for this long after it was told to end is killed. */
const END_LIMIT_MS = 60_000

/** Figures of one attack. */
export interface Outcome {
  readonly attack: Attack
  /** The most that the gateway's process had in memory during the attack, over what it had when idle, before any attack. */
  readonly megabytesOverIdle: number
  /** The same a little after the attack. */
  readonly megabytesLeft: number
  readonly tenant: TenantSeen
  /** While the same attack went against a server that discards. */
  readonly tenantBesideDiscard: TenantSeen
  /** The attacker's answers, by status; 0: connections that ended without one. */
  readonly byStatus: ReadonlyMap<number, number>
  /** The answers that it had of the server that discards, by status: it was sent as much, if these are as many. */
  readonly byStatusAtDiscard: ReadonlyMap<number, number>
  /** Rows and bytes, indexes too, that all tables grew by, those of the customer's calls taken off. */
  readonly rowsAdded: number
  readonly databaseMegabytesAdded: number
  /** Growth of the data directory, in which large answers are kept. */
  readonly fileMegabytesAdded: number
  /** When the gateway's event loop was held for over 20 ms, and by what; empty where it was not watched. */
  readonly held: readonly Held[]
}

export interface Harness {
  /** The gateway's memory before any attack, in MB. */
  readonly idleMegabytes: number
  attack(name: string, seconds: number): Promise<Outcome>
  close(): Promise<void>
}

interface HarnessOptions {
  /** Tells who held the event loop, which takes time itself. */
  readonly isWatched?: boolean
}

/** Starts everything and warms the gateway up. */
export async function openHarness({ isWatched = false }: HarnessOptions = {}): Promise<Harness> {
  const { database, url: databaseUrl, drop } = await freshDatabase()
  const heldFile = join(tmpdir(), `tollgate-held-${process.pid}`)
  const watch = await preload(WATCH)
  const watched = { ...watch.environment, [EVENT_LOOP_FILE]: heldFile }
  // An attacker's own server for webhooks is on this machine.
  const opened = { TOLLGATE_WEBHOOK_ALLOW: '127.0.0.0/8', DATABASE_URL: databaseUrl }
  const server = await startServer({
    settings: SETTINGS,
    environment: { ...(isWatched ? watched : {}), ...opened },
  })
  const tenant = await makeCustomer(database, { cents: TENANT_CENTS })
  const discard = await startDiscard()
  const memory = memoryOf(server.process.pid ?? 0)
  const besideTenant = async (work: () => Promise<void>) => {
    const calls = startTenant(server.url, tenant.key)
    await work()
    return calls.end()
  }
  await besideTenant(() => sleep(WARM_UP_MS))
  await makeVideo(server.url, tenant.key)
  const idleMegabytes = memory.nowMegabytes()

  return {
    idleMegabytes,
    async attack(name, wantedSeconds) {
      const attack = await loadAttack(name)
      const seconds = Math.max(wantedSeconds, attack.leastSeconds ?? 0)
      const keys = await attackersKeys(database)
      let byStatusAtDiscard = new Map<number, number>()
      const tenantBesideDiscard = await besideTenant(async () => {
        byStatusAtDiscard = await carryOut(name, { url: discard.url, keys }, seconds)
      })
      const before = { ...(await sizeOf(database, tenant)), fileBytes: await folderBytes(server.dataDir) }
      memory.forgetPeak()
      rmSync(heldFile, { force: true })
      let byStatus = new Map<number, number>()
      const seen = await besideTenant(async () => {
        byStatus = await carryOut(name, { url: server.url, keys }, seconds)
      })
      const peak = memory.peakMegabytes()
      await sleep(SETTLE_MS)
      const after = await sizeOf(database, tenant)
      return {
        attack,
        megabytesOverIdle: peak - idleMegabytes,
        megabytesLeft: memory.nowMegabytes() - idleMegabytes,
        tenant: seen,
        tenantBesideDiscard,
        byStatus,
        byStatusAtDiscard,
        held: heldBy(heldFile),
        rowsAdded: after.rows - before.rows - (after.tenantCharges - before.tenantCharges),
        databaseMegabytesAdded: (after.bytes - before.bytes) / 2 ** 20,
        fileMegabytesAdded: ((await folderBytes(server.dataDir)) - before.fileBytes) / 2 ** 20,
      }
    },
    async close() {
      discard.stop()
      await server.remove()
      await watch.remove()
      rmSync(heldFile, { force: true })
      await drop()
    },
  }
}

/** Has a clip made: the packages that make and measure clips are loaded with the first one, and are no attack's memory. */
async function makeVideo(url: string, key: string): Promise<void> {
  const headers = { Authorization: `Bearer ${key}` }
  const body = JSON.stringify({ model: 'svc/sandbox-video', prompt: 'x', seconds: 1, size: '320x180' })
  const { id } = await (await fetch(`${url}/videos`, { method: 'POST', headers, body })).json()
  await until(async () => (await (await fetch(`${url}/videos/${id}`, { headers })).json()).status === 'completed')
}

/** Makes an organization for one attack, so that none depends on what another has spent or kept. Gives its keys, all of an admin. */
async function attackersKeys(database: Parameters<typeof makeCustomer>[0]): Promise<string[]> {
  const first = await makeCustomer(database, { cents: ATTACKER_CENTS, admin: true })
  const more = Array.from({ length: ATTACKER_KEYS - 1 }, () => makeKey(database, first.organizationId, { admin: true }))
  return [first, ...(await Promise.all(more))].map(({ key }) => key)
}

/** The bytes of all files below a folder; those that are removed meanwhile count as nothing. */
async function folderBytes(folder: string): Promise<number> {
  let bytes = 0
  for await (const file of new Bun.Glob('**/*').scan({ cwd: folder, dot: true, absolute: true })) {
    bytes += statSync(file, { throwIfNoEntry: false })?.size ?? 0
  }
  return bytes
}

/** Runs one attack in a process of its own for so long; resolves to its answers by status. */
async function carryOut(name: string, target: Target, seconds: number): Promise<Map<number, number>> {
  const child = spawn(BUN, [join(import.meta.dirname, 'attackProcess.ts'), name], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (data) => {
    output += data
  })
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))
  child.stdin.on('error', () => {})
  child.stdin.write(`${JSON.stringify(target)}\n`)
  await Promise.race([sleep(seconds * 1_000), exited])
  child.stdin.end()
  const late = setTimeout(() => child.kill('SIGKILL'), END_LIMIT_MS)
  await exited
  clearTimeout(late)
  if (output === '') throw new Error(`the attack ${name} ended without saying what it was answered`)
  return new Map(Object.entries(JSON.parse(output)).map(([status, count]) => [Number(status), Number(count)]))
}

function heldBy(file: string): Held[] {
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  return lines.map((line) => JSON.parse(line))
}

async function startDiscard(): Promise<{ readonly url: string; stop(): void }> {
  const child: ChildProcess = spawn(BUN, [join(import.meta.dirname, 'discardProcess.ts')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const port = await new Promise<string>((resolve) =>
    child.stdout?.once('data', (data) => resolve(String(data).trim())),
  )
  return { url: `http://127.0.0.1:${port}/v1`, stop: () => void child.kill() }
}

function memoryOf(pid: number) {
  const read = (name: string) => {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1_024
  }
  return {
    nowMegabytes: () => read('VmRSS'),
    /** Since {@link forgetPeak}. */
    peakMegabytes: () => read('VmHWM'),
    forgetPeak: () => writeFileSync(`/proc/${pid}/clear_refs`, '5'),
  }
}

async function sizeOf(database: Parameters<typeof makeCustomer>[0], tenant: TestKey) {
  // Partitions are tables too; a count of all rows is exact, and there are few.
  const tables = await database.query<{ name: string }>(
    `select quote_ident(schemaname) || '.' || quote_ident(tablename) as name from pg_tables where schemaname = 'public'`,
    [],
  )
  let rows = 0
  for (const { name } of tables) {
    const [counted] = await database.query<{ count: string }>(`select count(*)::text as count from only ${name}`, [])
    rows += Number(counted?.count ?? 0)
  }
  const [size] = await database.query<{ bytes: string }>(
    `select coalesce(sum(pg_total_relation_size(c.oid)), 0)::text as bytes
     from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'public' and c.relkind = 'r'`,
    [],
  )
  const [charges] = await database.query<{ count: string }>(
    'select count(*)::text as count from charges where organization_id = $1',
    [tenant.organizationId],
  )
  return { rows, bytes: Number(size?.bytes ?? 0), tenantCharges: Number(charges?.count ?? 0) }
}
