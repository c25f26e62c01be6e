/** What a test does to the embedded PostgreSQL of a data directory from outside, whoever runs the gateway. */

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../src/io/clock.ts'
import { openClient } from '../src/io/postgres/client.ts'
import type { Database } from '../src/io/postgres/database.ts'

/** The process id and port of the server that runs on it, or ran last. */
export async function readPostmaster(dataDir: string): Promise<{ pid: number; port: number }> {
  const lines = (await readFile(join(dataDir, 'postgres/cluster/postmaster.pid'), 'utf8')).split('\n')
  return { pid: Number(lines[0]), port: Number(lines[3]) }
}

/** A client of the running server. Close it before the server is to be stopped. */
export async function openDirectory(dataDir: string): Promise<Database> {
  const { port } = await readPostmaster(dataDir)
  const password = (await readFile(join(dataDir, 'postgres/password'), 'utf8')).trim()
  const url = `postgres://tollgate:${password}@127.0.0.1:${port}/postgres`
  return openClient(url, { maxConnections: 2, clock: systemClock, applicationName: 'test' })
}

/** SIGKILL to the postmaster and all its children at once, as when the machine's memory runs out. */
export function killPostgres(dataDir: string): Promise<void> {
  return signalPostgres(dataDir, 'SIGKILL')
}

/** Sends a signal to the postmaster and all its children. */
export async function signalPostgres(dataDir: string, signal: NodeJS.Signals): Promise<void> {
  const { pid } = await readPostmaster(dataDir)
  const children = await childrenOf(pid)
  for (const each of [pid, ...children]) {
    try {
      process.kill(each, signal)
    } catch {
      // It has ended by itself.
    }
  }
}

async function childrenOf(parent: number): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
    // The name before it stands in brackets and may hold anything.
    const afterName = stat.slice(stat.lastIndexOf(')') + 2)
    if (Number(afterName.split(' ')[1]) === parent) found.push(Number(name))
  }
  return found
}
