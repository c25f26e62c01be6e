/**
 * The things that a test does to the embedded PostgreSQL of a data directory from outside, whoever runs the gateway.
 */

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../src/infra/clock.ts'
import { openClient } from '../src/infra/postgres/client.ts'
import { SUPERUSER_ROLE } from '../src/infra/postgres/cluster.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { urlOf } from '../src/infra/postgres/socket.ts'

/** The process id, port and socket folder of the server that runs on it, or ran last. */
export async function readPostmaster(
  dataDir: string,
): Promise<{ readonly pid: number; readonly port: number; readonly socketFolder: string }> {
  const lines = (await readFile(join(dataDir, 'postgres/cluster/postmaster.pid'), 'utf8')).split('\n')
  return { pid: Number(lines[0]), port: Number(lines[3]), socketFolder: lines[4] ?? '' }
}

/** A client of the running server. Close it before the server is to be stopped. */
export async function openDirectory(dataDir: string): Promise<Database> {
  const listening = await readPostmaster(dataDir)
  const password = (await readFile(join(dataDir, 'postgres/password'), 'utf8')).trim()
  return openClient(urlOf(listening, SUPERUSER_ROLE, password), {
    maxConnections: 2,
    clock: systemClock,
    applicationName: 'test',
  })
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
