import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chown, link, mkdir, open, readdir, readFile, rename, rm, unlink, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Binaries } from './binaries.ts'
import { programOf } from './binaries.ts'
import type { OsUser } from './osUser.ts'

/** A PostgreSQL data directory and all that is needed to run and reach it. */
export interface Cluster {
  /** PostgreSQL's own data directory. */
  readonly folder: string
  /** Where the server's messages go; beside the cluster. */
  readonly logFile: string
  readonly binaries: Binaries
  /** Null: the gateway's own user. */
  readonly user: OsUser | null
  /** Of the superuser. */
  readonly password: string
}

/** The superuser of the embedded cluster, for making {@link GATEWAY_ROLE} and for operators. */
export const SUPERUSER_ROLE = 'tollgate'
/** The role that gateways and commands use. It owns the database and all in it, and is no superuser. */
export const GATEWAY_ROLE = 'gateway'
/** `initdb` makes it, which saves a statement, and a half-made state, on the first start. */
export const CLUSTER_DATABASE = 'postgres'

/**
 * Settings of the embedded server, written anew at each start. `ALTER SYSTEM` overrides them.
 * Durability is PostgreSQL's own: fsync, full_page_writes and synchronous_commit stay on.
 */
const SETTINGS = {
  // No port: another user of the machine could take it when the server has died, and pose as the server.
  listen_addresses: "''",
  unix_socket_permissions: '0700',
  password_encryption: 'scram-sha-256',
  shared_buffers: '128MB',
  // 3 processes fewer; what is read is nearly always in memory.
  io_method: 'sync',
  // Parallel queries need /dev/shm, which containers keep small, and would take both cores from the gateway.
  max_parallel_workers_per_gather: '0',
  max_wal_size: '1GB',
  checkpoint_timeout: '15min',
  wal_compression: 'on',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  // Only lifecycle and fatal messages, one line each: an ERROR quotes values ("invalid input syntax: …"), a DETAIL
  // quotes keys and statements. The client is told all of it anyway.
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_parameter_max_length: '0',
  log_parameter_max_length_on_error: '0',
  log_statement: 'none',
  log_checkpoints: 'off',
  log_autovacuum_min_duration: '-1',
}

/** For a few gateways, which use up to about 20 each, and for commands. */
const CONNECTIONS_LEAST = 200
const CONNECTIONS_OF_COMMANDS = 40
const CONNECTIONS_OF_GATEWAY = 25

/** Returns how many connections the server takes where so many gateways share it. */
export function connectionsFor(gateways: number): number {
  return Math.max(CONNECTIONS_LEAST, CONNECTIONS_OF_COMMANDS + CONNECTIONS_OF_GATEWAY * gateways)
}

/**
 * For throw-away clusters of tests: a power cut may cost all of it, a kill -9 nothing. Connections of tests are short, and plan a statement
 * once, as those of gateways do after a few times.
 */
const THROW_AWAY_SETTINGS = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  autovacuum: 'on',
  plan_cache_mode: 'force_generic_plan',
}

/**
 * Writes `postgresql.conf`, whole at once: another process may be starting the server at this moment. `socketFolder` holds no
 * quotes, commas or spaces.
 */
export async function writeSettings(
  cluster: Cluster,
  { socketFolder, connections, throwAway }: Readonly<{ socketFolder: string; connections: number; throwAway: boolean }>,
): Promise<void> {
  const own = { unix_socket_directories: `'${socketFolder}'`, max_connections: connections }
  const lines = Object.entries({ ...SETTINGS, ...own, ...(throwAway ? THROW_AWAY_SETTINGS : {}) })
  const text = [
    '# Written by Tollgate at each start of its embedded PostgreSQL. To change a setting: ALTER SYSTEM SET name = value.',
    ...lines.map(([name, value]) => `${name} = ${value}`),
    '',
  ].join('\n')
  const path = join(cluster.folder, 'postgresql.conf')
  const staging = `${path}.${randomBytes(6).toString('hex')}`
  await writeOwned(staging, text, cluster.user)
  await rename(staging, path)
}

/**
 * Makes the cluster unless it is there: UTF-8, sorted by code point (the same on every system and after every upgrade
 * of its libraries). Whole or not at all: it is made aside and renamed, and of two first starts one wins.
 */
export async function createCluster(cluster: Cluster, throwAway: boolean): Promise<void> {
  const isThere = () => existsSync(join(cluster.folder, 'PG_VERSION'))
  if (isThere()) return
  const staging = `${cluster.folder}${STAGING}${randomBytes(6).toString('hex')}`
  try {
    await makeOwned(staging, cluster.user)
    const passwordFile = `${staging}.password`
    await writeOwned(passwordFile, cluster.password, cluster.user)
    await initdb(cluster, staging, passwordFile, throwAway)
    await rename(staging, cluster.folder)
  } catch (error) {
    // Somebody else's is there: theirs came first, and ours may have been cleared away under our hands.
    if (!isThere()) throw isFolderInTheWay(error) ? new Error(broken(cluster.folder)) : error
  } finally {
    await clearStaging(isThere() ? `${cluster.folder}${STAGING}` : staging)
  }
}

/** Returns whether a folder could not be renamed because another one with something in it has its name. */
function isFolderInTheWay(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOTEMPTY' || error.code === 'EEXIST')
}

function broken(folder: string): string {
  return (
    `${folder} is no whole PostgreSQL data directory: its file PG_VERSION is missing. Bring the folder back from a backup, ` +
    'or move it away to begin with an empty database.'
  )
}

const STAGING = '.new-'

/**
 * Removes what begins with a path: our own attempt, or, once there is a cluster, also those of others, killed on their
 * way or about to lose.
 */
async function clearStaging(path: string): Promise<void> {
  for (const name of await readdir(dirname(path))) {
    if (name.startsWith(basename(path))) await rm(join(dirname(path), name), { recursive: true, force: true })
  }
}

async function initdb(cluster: Cluster, folder: string, passwordFile: string, throwAway: boolean): Promise<void> {
  const command = [
    programOf(cluster.binaries, 'initdb'),
    ...['-D', folder, '-U', SUPERUSER_ROLE, '-A', 'scram-sha-256', '--pwfile', passwordFile],
    ...['-E', 'UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--no-instructions'],
    ...syncOptions(throwAway),
  ]
  const child = Bun.spawn(command, { ...identity(cluster.user), stdin: 'ignore', stdout: 'ignore', stderr: 'pipe' })
  const [messages, code] = await Promise.all([new Response(child.stderr).text(), child.exited])
  if (code === 0) return
  throw new Error(
    `PostgreSQL could not create its data directory ${cluster.folder} (initdb ended with ${code}): ` +
      `${messages.trim().slice(0, 2_000)}. Free space or mend the folder's permissions, then start again.`,
  )
}

/** One flush of the file system takes 0.05 s where flushing a thousand small files takes 0.5 to 3 s. */
function syncOptions(throwAway: boolean): string[] {
  if (throwAway) return ['--no-sync']
  return process.platform === 'linux' ? ['--sync-method=syncfs'] : []
}

/**
 * Returns the options that a child of ours is spawned with: another user's identity when we are root, none of our
 * environment.
 */
export function identity(user: OsUser | null) {
  const env = { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/local/bin:/usr/bin:/bin' }
  return { cwd: '/', env, ...(user === null ? {} : { uid: user.uid, gid: user.gid }) }
}

/** Makes a folder of mode 0700 that belongs to the database's OS user. */
async function makeOwned(folder: string, user: OsUser | null): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (user !== null) await chown(folder, user.uid, user.gid)
}

/** Through one handle: in a folder that is another user's, a path may have become a link to something of root's. */
async function writeOwned(path: string, text: string, user: OsUser | null): Promise<void> {
  const file = await open(path, 'wx', 0o600)
  try {
    if (user !== null) await file.chown(user.uid, user.gid)
    await file.writeFile(text)
  } finally {
    await file.close()
  }
}

/** Reads the cluster's password, or draws one. The file is made whole and once, whoever comes first. */
export async function readOrMakePassword(path: string): Promise<string> {
  const known = await readFile(path, 'utf8').catch(() => null)
  if (known !== null) return known.trim()
  const staging = `${path}.${randomBytes(6).toString('hex')}`
  await writeFile(staging, `${randomBytes(24).toString('base64url')}\n`, { mode: 0o600 })
  try {
    await link(staging, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
  } finally {
    await unlink(staging)
  }
  return (await readFile(path, 'utf8')).trim()
}
