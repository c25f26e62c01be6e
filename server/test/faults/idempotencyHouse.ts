/** Gateways that die in mid-work: one with its own database, or two on another's. */

import { readdir, readFile } from 'node:fs/promises'
import { systemClock } from '../../src/infra/clock.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { killPostgres, openDirectory } from '../dataDirectory.ts'
import { freshDatabase } from '../postgres.ts'
import { startRedis } from '../redis.ts'
import { startServer } from '../server.ts'
import { seeded } from './seeded.ts'

/** The attempts of dead processes are taken over once the database has run for a minute. */
const OLD_ENOUGH_MS = 62_000

export interface KeyedHouse {
  /** Ends in /v1. */
  url(): string
  inDatabase<T>(work: (database: Database) => Promise<T>): Promise<T>
  /** SIGKILL to a gateway, and to its own database where that is wanted. */
  die(withDatabase: boolean, seed: number): Promise<void>
  /** Everybody serves again. */
  restart(): Promise<void>
  close(): Promise<void>
}

/** One gateway with its embedded database. */
export async function openKeyedHouse(settings: string): Promise<KeyedHouse> {
  let server = await startServer({ settings })
  const { dataDir } = server
  return {
    url: () => server.url,
    async inDatabase(work) {
      const database = await openDirectory(dataDir)
      try {
        return await work(database)
      } finally {
        await database.close()
      }
    },
    async die(withDatabase) {
      await server.kill()
      if (withDatabase) await killPostgres(dataDir)
    },
    async restart() {
      server = await startServer({ settings, dataDir })
    },
    close: () => server.remove(),
  }
}

/** Two gateways of one command on one database: one of them dies, the other goes on at once. Takes a minute to open. */
export async function openPairedHouse(settings: string): Promise<KeyedHouse> {
  const redis = await startRedis()
  const fresh = await freshDatabase()
  const environment = { DATABASE_URL: fresh.url, REDIS_URL: redis.url, TOLLGATE_PROCESSES: '2' }
  const server = await startServer({ settings, environment })
  const gateways = () => childrenOf(server.process.pid ?? 0)
  await untilOld(fresh.database)
  return {
    url: () => server.url,
    inDatabase: (work) => work(fresh.database),
    async die(_withDatabase, seed) {
      const living = await gateways()
      const pid = living[seeded(seed).between(0, living.length - 1)]
      if (pid === undefined) throw new Error('there is nobody to kill')
      process.kill(pid, 'SIGKILL')
      while ((await gateways()).includes(pid)) await new Promise((resolve) => setImmediate(resolve))
    },
    async restart() {
      while ((await gateways()).length < 2) await new Promise((resolve) => setTimeout(resolve, 50))
    },
    async close() {
      await server.remove()
      await fresh.drop()
      await redis.kill()
    },
  }
}

/** Until what dead processes leave behind in a database may be taken over. */
export async function untilOld(database: Database): Promise<void> {
  const [row] = await database.query<{ started: Date }>('select pg_postmaster_start_time() as started')
  while (systemClock.now() - (row?.started.getTime() ?? 0) < OLD_ENOUGH_MS) {
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

/** The gateways among the children of a process. */
async function childrenOf(parentPid: number): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc')) {
    const stat = /^\d+$/.test(name) ? await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '') : ''
    if (stat === '') continue
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (Number(parent) !== parentPid || state === 'Z') continue
    const line = await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '')
    if (line.includes('--admin-port')) found.push(Number(name))
  }
  return found
}
