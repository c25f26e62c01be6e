import { randomUUID } from 'node:crypto'
import { mkdir, readFile, readlink, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { isAlive } from './postmaster.ts'

/**
 * A token names the connections of one process in the database. The data directory keeps it beside the process, so that the next
 * process there may end the connections that a dead one left behind a network that had failed.
 */

const FILE = 'process.json'
/** Positions in `/proc/<pid>/stat`, counted behind the name of the program. */
const STATE_FIELD = 0
const START_FIELD = 19

interface KeptToken {
  readonly token: string
  readonly pid: number
  /** Tells it from a later process with the same id; null where the system does not say. */
  readonly startedAt: string | null
  /** Where process ids mean the same: one boot of one machine, and in it one container. */
  readonly place: string
}

/** Returns a token that no process ever had: 32 hex digits. */
export function newToken(): string {
  return randomUUID().replaceAll('-', '')
}

/**
 * Returns the token of the process that had the data directory before, if that process is known to have ended. Null where it lives, or
 * ran where its end can't be seen from here: on another machine, in another container.
 */
export async function readDeadToken(dataDir: string): Promise<string | null> {
  const kept = parse(await readFile(join(dataDir, FILE), 'utf8').catch(() => ''))
  if (kept === null || kept.place !== (await placeOfProcesses())) return null
  if (!isAlive(kept.pid)) return kept.token
  return (await startOf(kept.pid)) === kept.startedAt ? null : kept.token
}

/** Notes that this process has the data directory now, under its token. A note that was cut short tells nobody anything. */
export async function keepToken(dataDir: string, token: string): Promise<void> {
  const { pid } = process
  const kept: KeptToken = { token, pid, startedAt: await startOf(pid), place: await placeOfProcesses() }
  await mkdir(dataDir, { recursive: true })
  await writeFile(join(dataDir, FILE), `${JSON.stringify(kept)}\n`, { mode: 0o600 })
}

function parse(text: string): KeptToken | null {
  try {
    const kept = JSON.parse(text) as KeptToken
    return /^[0-9a-f]{32}$/.test(kept.token) && Number.isInteger(kept.pid) ? kept : null
  } catch {
    // Of another version, or cut short by a full disk: then nobody is known.
    return null
  }
}

async function placeOfProcesses(): Promise<string> {
  if (process.platform !== 'linux') return hostname()
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => hostname())
  return `${boot.trim()} ${await readlink('/proc/self/ns/pid').catch(() => hostname())}`
}

/** When a process was started, in the kernel's count; null for one that has ended, a zombie too, and where there is no /proc. */
async function startOf(pid: number): Promise<string | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // The name of the program may hold spaces and brackets.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  if (stat === '' || fields[STATE_FIELD] === 'Z' || fields[STATE_FIELD] === 'X') return null
  return fields[START_FIELD] ?? null
}
