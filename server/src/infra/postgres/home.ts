import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { copyBinaries, locateBinaries } from './binaries.ts'
import type { Cluster } from './cluster.ts'
import { readOrMakePassword } from './cluster.ts'
import type { OsUser } from './osUser.ts'
import { canReach, databaseUser } from './osUser.ts'

/** Where root keeps a database, and binaries, that the database's OS user can't reach in the data directory. */
export const ROOT_HOME = '/var/lib/tollgate'

/**
 * Decides where the cluster of a data directory is, who runs it and with which binaries, and makes the folders around
 * it. As a normal user all is under `<dataDir>/postgres`. As root the server must run as somebody else; where that user
 * can't pass (a checkout in /root), cluster and binaries are kept under `rootHome` and `<dataDir>/postgres/location`
 * says where.
 */
export async function resolveCluster(
  dataDir: string,
  rootHome: string,
  log: (message: string) => void,
): Promise<Cluster> {
  const folder = join(dataDir, 'postgres')
  await makePassable(dataDir)
  await makePassable(folder)
  const passwordFile = join(folder, 'password')
  // Looked at first: a cluster is made after its password.
  const isMade = await hasCluster(folder)
  if (isMade && !existsSync(passwordFile)) throw new Error(lostPassword(passwordFile))
  const password = await readOrMakePassword(passwordFile).catch(explainForeign(folder))
  const candidate = await databaseUser()
  const home = await resolveHome(folder, candidate, rootHome, log)
  const clusterFolder = join(home, 'cluster')
  const user = await ownerOf(clusterFolder, candidate)
  if (user !== null && !(await canReach(user, home))) {
    throw new Error(
      `The OS user ${user.name}, who runs the database, can't reach ${home} any more. Let others pass (chmod o+x) ` +
        'through every folder on the way, or move the data directory back.',
    )
  }
  let binaries = await locateBinaries()
  if (user !== null && !(await canReach(user, binaries.folder))) {
    binaries = await copyBinaries(binaries, join(rootHome, 'binaries'))
  }
  return { folder: clusterFolder, logFile: join(home, 'server.log'), binaries, user, password }
}

/** Returns whether a cluster was made for this folder, here or where `location` says. */
async function hasCluster(folder: string): Promise<boolean> {
  const home = await readFile(join(folder, 'location'), 'utf8').catch(() => folder)
  // Only the cluster's own user may look into it.
  return existsSync(join(home.trim(), 'cluster'))
}

/** Says that the password of an embedded database is not there, or not the one that it was made with. */
export function lostPassword(path: string): string {
  return (
    `the password of the database is not in ${path} any more: bring this file back from a backup of the data directory. ` +
    'The database itself is untouched.'
  )
}

/** Makes a folder that others may pass through, not list, when root makes it for the database's user. */
async function makePassable(folder: string): Promise<void> {
  const made = await mkdir(folder, { recursive: true })
  if (made !== undefined) await chmod(folder, process.getuid?.() === 0 ? 0o711 : 0o700)
}

async function resolveHome(
  folder: string,
  user: OsUser | null,
  rootHome: string,
  log: (message: string) => void,
): Promise<string> {
  const pointer = join(folder, 'location')
  const kept = await readFile(pointer, 'utf8').catch(() => null)
  if (kept !== null) {
    const home = kept.trim()
    if (existsSync(home)) return home
    throw new Error(
      `${pointer} says that the database is kept in ${home}, which does not exist. ` +
        'Bring it back from a backup, or remove the whole data directory to begin anew.',
    )
  }
  if (user === null || existsSync(join(folder, 'cluster')) || (await canReach(user, folder))) return folder
  const home = join(rootHome, randomBytes(8).toString('hex'))
  await mkdir(home, { recursive: true, mode: 0o755 })
  await writeFile(pointer, `${home}\n`)
  log(`the OS user ${user.name}, who runs the database, can't reach ${folder}; the database is kept in ${home}`)
  return home
}

/** An existing cluster keeps the user it was made for, whoever would be chosen today. */
async function ownerOf(clusterFolder: string, candidate: OsUser | null): Promise<OsUser | null> {
  const found = await stat(clusterFolder).catch(() => null)
  if (found === null) return candidate
  if (candidate !== null) return { name: `uid ${found.uid}`, uid: found.uid, gid: found.gid }
  if (found.uid !== process.getuid?.()) {
    throw new Error(
      `The database in ${clusterFolder} belongs to another OS user (uid ${found.uid}). ` +
        'Start Tollgate as the user who made it (root, if root did), or give another --data-dir.',
    )
  }
  return null
}

function explainForeign(folder: string) {
  return (error: NodeJS.ErrnoException): never => {
    if (error.code !== 'EACCES' && error.code !== 'EPERM') throw error
    throw new Error(
      `${folder} can't be read by this OS user. ` +
        'Start Tollgate as the user who made the data directory, or give another --data-dir.',
    )
  }
}
