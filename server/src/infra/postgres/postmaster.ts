import { readFile, readlink, realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { SOCKET_NAME } from './socket.ts'

/** The contents of `postmaster.pid`, which a running PostgreSQL server writes. */
export interface Postmaster {
  readonly pid: number
  /** Null while it starts. */
  readonly port: number | null
  /** The folder of its socket; null while it starts, and for one that listens on TCP alone. */
  readonly socketFolder: string | null
  /** True once it takes connections. */
  readonly ready: boolean
}

/**
 * The server that runs on a cluster, or null. A file that a killed server left behind counts as none, also when its
 * process id belongs to another program by now.
 */
export async function findPostmaster(folder: string): Promise<Postmaster | null> {
  const written = await readPidFile(folder)
  return written !== null && (await servesFolder(written.pid, folder)) ? written : null
}

/**
 * Removes the files of a dead server whose process id belongs to some other program by now: PostgreSQL clears away all others
 * itself, but would refuse to start beside these.
 */
export async function forgetReusedPid(folder: string, socketFolder: string): Promise<void> {
  const written = await readPidFile(folder)
  if (written === null || !isAlive(written.pid) || (await servesFolder(written.pid, folder))) return
  await rm(join(folder, 'postmaster.pid'), { force: true })
  await rm(join(socketFolder, `${SOCKET_NAME}.lock`), { force: true })
}

/** Lines of the file: process id, folder, start time, port, socket folder, address, memory key, state. */
async function readPidFile(folder: string): Promise<Postmaster | null> {
  const text = await readFile(join(folder, 'postmaster.pid'), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
  const lines = text.split('\n')
  const pid = Number(lines[0])
  if (!Number.isInteger(pid) || pid <= 1) return null
  const port = Number(lines[3])
  const socketFolder = lines[4]?.trim() || null
  return { pid, port: port > 0 ? port : null, socketFolder, ready: lines[7]?.trim() === 'ready' }
}

/** Returns whether there is a process with this id, of whichever user. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** A postmaster works in its data directory, which tells it from a stranger with the same process id. */
async function servesFolder(pid: number, folder: string): Promise<boolean> {
  if (!isAlive(pid)) return false
  if (process.platform !== 'linux') return commandNames(pid, folder)
  // A zombie has no working directory, and a stranger's may not be read: neither serves this folder.
  const workingFolder = await readlink(`/proc/${pid}/cwd`).catch(() => null)
  return workingFolder !== null && workingFolder === (await realpath(folder))
}

/** Without /proc: the command line, in which we name the folder. */
async function commandNames(pid: number, folder: string): Promise<boolean> {
  const child = Bun.spawn(['ps', '-o', 'command=', '-p', String(pid)], { stdout: 'pipe', stderr: 'ignore' })
  return (await new Response(child.stdout).text()).includes(folder)
}
