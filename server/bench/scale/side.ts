/** One of the databases that are compared: a PostgreSQL of its own, filled, and the gateways that serve from it. */

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../../src/infra/clock.ts'
import { openClient } from '../../src/infra/postgres/client.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { type EmbeddedServer, startEmbedded } from '../../src/infra/postgres/embedded.ts'
import { migrate } from '../../src/infra/postgres/migrate.ts'
import { MINUTE_MS } from '../../src/lib/time.ts'
import { closingAfter, MIGRATIONS_FOLDER, withClient } from '../../test/postgres.ts'
import { startServer, type TestServer } from '../../test/server.ts'
import { processTree } from '../processes.ts'
import type { Session } from '../session.ts'
import type { Target } from '../target.ts'
import { databaseTree } from '../targetTollgate.ts'
import { type BooksSize, keyOfOrganization } from './books.ts'
import { prepareExplaining } from './explained.ts'
import { fillBooks } from './fill.ts'
import { settingsOf } from './settings.ts'

/** Statements that fill or vacuum millions of rows. */
const FILL_STATEMENT_MS = 60 * MINUTE_MS
/** Gateways of one database encrypt with one key. */
export const DATA_KEY = 'ab'.repeat(32)
/** 16 gateways take up to 20 each. */
const CONNECTIONS = 400
/** From so many charges on, a database does not fit into the usual memory of PostgreSQL while it is filled. */
const MANY_CHARGES = 1_000_000
/**
 * Of PostgreSQL until a large database is filled. Indexes in no order of time fit into memory, and are written to disk once. Autovacuum
 * stays on: without its statistics each page of the statements of a month would read all those before it.
 */
const WHILE_FILLING = { shared_buffers: '4GB', max_wal_size: '32GB', checkpoint_timeout: '1h' }
/** Keys that a load of chat is spread over. */
const CHAT_KEYS = 20

/** How long one start took, in milliseconds, to the line that says where it serves. */
export interface Started {
  readonly gateway: TestServer
  readonly readyMs: number
}

/** The books of a side. */
type FilledBooks = Pick<Side, 'name' | 'size' | 'filledAtMs'>

export class Side {
  readonly name: string
  readonly size: BooksSize
  /** When its books end, in milliseconds since the epoch. */
  readonly filledAtMs: number
  /** As the gateways' role; statements may take minutes. */
  readonly database: Database
  private readonly postgres: EmbeddedServer
  private readonly folder: string
  private readonly mockPort: number
  private readonly gateways = new Set<TestServer>()
  private main: TestServer | null = null
  private startedCount = 0

  constructor(books: FilledBooks, postgres: EmbeddedServer, folder: string, mockPort: number) {
    this.name = books.name
    this.size = books.size
    this.filledAtMs = books.filledAtMs
    this.postgres = postgres
    this.folder = folder
    this.mockPort = mockPort
    this.database = openPatiently(postgres.url)
  }

  /** The gateway that is asked when nothing else is said. */
  get gateway(): TestServer {
    if (this.main === null) throw new Error(`the ${this.name} database has no gateway`)
    return this.main
  }

  get port(): number {
    return portOf(this.gateway)
  }

  get databaseUrl(): string {
    return this.postgres.url
  }

  get databasePids(): number[] {
    return databaseTree(this.folder)
  }

  get gatewayPids(): number[] {
    return [...this.gateways].flatMap(({ process }) => (process.pid === undefined ? [] : processTree(process.pid)))
  }

  /** Starts the main gateway, on the same data directory as before. */
  async start(): Promise<Started> {
    const began = await this.launch('gateway')
    this.main = began.gateway
    return began
  }

  /** Starts so many more gateway processes on the database, all at once. */
  async startMore(count: number): Promise<TestServer[]> {
    const names = Array.from({ length: count }, (_, index) => `gateway${this.startedCount + index + 1}`)
    this.startedCount += count
    return (await Promise.all(names.map((name) => this.launch(name)))).map(({ gateway }) => gateway)
  }

  /** Stops the gateway with SIGTERM; returns the milliseconds until it had ended. */
  async stop(gateway = this.gateway): Promise<number> {
    const beganAtMs = performance.now()
    await gateway.stop()
    this.gateways.delete(gateway)
    return performance.now() - beganAtMs
  }

  async kill(): Promise<void> {
    await this.gateway.kill()
    this.gateways.delete(this.gateway)
  }

  /** Writes the settings file of the main gateway, with these models more. It is read when the gateway is told to. */
  async writeSettings(moreModels: readonly string[]): Promise<void> {
    await writeFile(join(this.folder, 'gateway', 'tollgate.yaml'), settingsOf(this.mockPort, moreModels))
  }

  /** Chat over some organizations' keys, for the driver process. */
  target(): Target {
    const keys = Math.min(CHAT_KEYS, this.size.organizations)
    return {
      name: this.name,
      port: this.port,
      path: '/v1/chat/completions',
      headers: {},
      authorizations: Array.from({ length: keys }, (_, index) => `Bearer ${keyOfOrganization(index + 1)}`),
      modelName: (mockModel) => `svc/${mockModel}`,
      gatewayPids: () => this.gatewayPids,
      databasePids: () => this.databasePids,
    }
  }

  /** The same as the superuser, for checkpoints and statistics. */
  asSuperuser<T>(work: (database: Database) => Promise<T>): Promise<T> {
    return closingAfter(openPatiently(this.postgres.superuserUrl), work)
  }

  /** Stops what a measure that failed has left, and starts the main gateway for the next one. */
  async startAfresh(): Promise<void> {
    for (const gateway of this.gateways) await this.stop(gateway)
    await this.start()
  }

  /** Ends the gateways and the database. */
  async close(): Promise<void> {
    await Promise.all([...this.gateways].map((gateway) => gateway.stop()))
    await this.database.close()
    await this.postgres.stop()
  }

  private async launch(name: string): Promise<Started> {
    const dataDir = join(this.folder, name)
    await mkdir(dataDir, { recursive: true })
    const beganAtMs = performance.now()
    const gateway = await startServer({
      dataDir,
      settings: settingsOf(this.mockPort),
      environment: { DATABASE_URL: this.postgres.url, REDIS_URL: '', TOLLGATE_DATA_KEY: DATA_KEY },
    })
    const readyMs = performance.now() - beganAtMs
    this.gateways.add(gateway)
    return { gateway, readyMs }
  }
}

export function portOf(gateway: TestServer): number {
  return Number(new URL(gateway.url).port)
}

/** Starts a PostgreSQL that counts its statements, and fills its database. It ends with the session. No gateway is started. */
export async function openSide(session: Session, name: string, size: BooksSize, mockPort: number): Promise<Side> {
  const folder = join(session.folder, name)
  await mkdir(folder, { recursive: true })
  const options = { dataDir: join(folder, 'database'), clock: systemClock, log: (text: string) => console.error(text) }
  const first = await startEmbedded(options)
  // This one stops whatever server works in the folder.
  let close = () => first.stop()
  session.processes.afterwards(() => close())
  await withClient(first.superuserUrl, async (superuser) => {
    await superuser.query(`alter system set max_connections = ${CONNECTIONS}`)
    for (const [setting, value] of size.charges < MANY_CHARGES ? [] : Object.entries(WHILE_FILLING))
      await superuser.query(`alter system set ${setting} = '${value}'`)
    await superuser.query("alter system set shared_preload_libraries = 'pg_stat_statements'")
    await superuser.query('create extension pg_stat_statements')
    await prepareExplaining(superuser)
  })
  await first.stop()
  const filledAtMs = systemClock.now()
  await fillAndStop(await startEmbedded(options), size, filledAtMs)
  const side = new Side({ name, size, filledAtMs }, await startEmbedded(options), folder, mockPort)
  close = () => side.close()
  return side
}

/** Migrates and fills the database of a server, and stops the server: with its next start it has its usual settings again. */
async function fillAndStop(server: EmbeddedServer, size: BooksSize, filledAtMs: number): Promise<void> {
  try {
    await closingAfter(openPatiently(server.url), async (database) => {
      await migrate(database, MIGRATIONS_FOLDER, systemClock)
      await fillBooks(database, size, filledAtMs)
    })
    await closingAfter(openPatiently(server.superuserUrl), async (superuser) => {
      for (const setting of Object.keys(WHILE_FILLING)) await superuser.query(`alter system reset ${setting}`)
      await superuser.query('checkpoint')
    })
  } finally {
    await server.stop()
  }
}

/** Opens a database for statements that take minutes. */
function openPatiently(url: string): Database {
  return openClient(url, {
    maxConnections: 3,
    clock: systemClock,
    applicationName: 'bench',
    statementTimeoutMs: FILL_STATEMENT_MS,
  })
}
