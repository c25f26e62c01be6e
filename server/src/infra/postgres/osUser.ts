import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/** The OS user that the database server runs as. PostgreSQL refuses to run as root. */
export interface OsUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/**
 * OS users tried, in this order, when the gateway runs as root. `tollgate` is for those who make one for the purpose;
 * the others are there on practically every system.
 */
const CANDIDATES = ['tollgate', 'postgres', 'nobody']

/** The OS user for the database server, or null when it runs as the gateway's own (not root). */
export async function databaseUser(): Promise<OsUser | null> {
  if (process.getuid?.() !== 0) return null
  for (const name of CANDIDATES) {
    const [uid, gid] = await Promise.all([idOf(name, '-u'), idOf(name, '-g')])
    if (uid !== null && gid !== null && uid !== 0) return { name, uid, gid }
  }
  throw new Error(
    'PostgreSQL does not run as root, and this system has no user tollgate, postgres or nobody to run it as. ' +
      'Create one (useradd --system tollgate), start Tollgate as another user, or set DATABASE_URL.',
  )
}

async function idOf(name: string, option: '-u' | '-g'): Promise<number | null> {
  const child = Bun.spawn(['id', option, name], { stdout: 'pipe', stderr: 'ignore' })
  const text = (await new Response(child.stdout).text()).trim()
  return (await child.exited) === 0 && /^\d+$/.test(text) ? Number(text) : null
}

/**
 * Returns whether `user` may pass through every folder from the root down to `folder`, judged by owner, group and mode. Folders
 * that do not exist yet don't count against it.
 */
export async function canReach(user: OsUser, folder: string): Promise<boolean> {
  for (let path = folder; ; path = dirname(path)) {
    const found = await stat(path).catch(() => null)
    if (found !== null) {
      const shift = found.uid === user.uid ? 6 : found.gid === user.gid ? 3 : 0
      if (((found.mode >> shift) & 1) === 0) return false
    }
    if (path === dirname(path)) return true
  }
}
