import { closeSync, openSync } from 'node:fs'
import { copyFile, readFile, realpath, stat, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import type { Timers } from '../../lib/time.ts'
import { SECOND_MS, sleep } from '../../lib/time.ts'
import { programOf } from './binaries.ts'
import { openClient } from './client.ts'
import type { Cluster } from './cluster.ts'
import { connectionsFor, createCluster, GATEWAY_ROLE, identity, SUPERUSER_ROLE, writeSettings } from './cluster.ts'
import { isConnectionFailure, sqlStateOf } from './faults.ts'
import { gatewayPassword, makeGatewayRole } from './gatewayRole.ts'
import { lostPassword, ROOT_HOME, resolveCluster } from './home.ts'
import { SessionOwnershipLost } from './keptSession.ts'
import { findPostmaster, forgetReusedPid } from './postmaster.ts'
import { type Listening, makeSocketFolder, removeSocketFolder, SOCKET_PORT, urlOf } from './socket.ts'

/** The SQLSTATE of a password that is not the one of the role. */
const WRONG_PASSWORD = '28P01'
/** Recovery after a crash reads at most `max_wal_size` of log, well under a minute on a slow disk. */
const START_TIMEOUT_MS = 120 * SECOND_MS
/** A clean stop writes what is in memory; past this the server goes on stopping by itself and we leave. */
const STOP_TIMEOUT_MS = 60 * SECOND_MS
/** Starts that end at once before we give up: backends of a killed server may still be leaving. */
const START_ATTEMPTS = 6
const POLL_MS = 4
/** The log is cut when it is longer; one older part is kept. Bounds it at twice this. */
const LOG_LIMIT_BYTES = 1024 * 1024

export interface EmbeddedOptions {
  /** The data directory; the database is `<dataDir>/postgres`. Made when absent. */
  readonly dataDir: string
  readonly clock: Timers
  readonly log: (message: string) => void
  /** Gateways that share it, for which it takes connections; 1 unless given. */
  readonly gateways?: number
  /** For tests: no fsync. A power cut may cost the whole database. */
  readonly throwAway?: boolean
  /** Where root keeps what the database's OS user can't reach; `/var/lib/tollgate` unless given. */
  readonly rootHome?: string
}

/** A database server of our own that runs, whether we started it or found it running. */
export interface EmbeddedServer {
  /** `postgres://…` with the password, of a role that is no superuser: a secret. Stays the same for the life of this object. */
  readonly url: string
  /** The same of the superuser. Nothing that serves uses it. */
  readonly superuserUrl: string
  /** True when the server was running already (started by another process, or left by a killed one). */
  readonly adopted: boolean
  /** Starts the server again if it has gone. @throws SessionOwnershipLost when it listens elsewhere now. */
  ensureRunning(): Promise<void>
  /** Clean, fast shutdown, whoever started it; open connections are cut. Resolves when the server is gone. */
  stop(): Promise<void>
  /** Cuts the server's log when it has grown long. Call now and then. */
  trimLog(): Promise<void>
}

/**
 * Brings up the embedded PostgreSQL of a data directory: creates it at first, adopts it when it runs, else starts it.
 * Several processes may do so at once.
 *
 * @throws with PostgreSQL's own last words when it can't be started.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const cluster = await resolveCluster(options.dataDir, options.rootHome ?? ROOT_HOME, options.log)
  await createCluster(cluster, options.throwAway ?? false)
  const first = await bringUpWithRole(cluster, options)
  const gatewayUrlOf = (listening: Listening) => urlOf(listening, GATEWAY_ROLE, gatewayPassword(cluster.password))
  return {
    url: gatewayUrlOf(first),
    superuserUrl: urlOf(first, SUPERUSER_ROLE, cluster.password),
    adopted: first.adopted,
    async ensureRunning() {
      const now = await bringUp(cluster, options)
      if (gatewayUrlOf(now) !== gatewayUrlOf(first)) {
        throw new SessionOwnershipLost('The database listens at another address now; start Tollgate again.')
      }
    },
    stop: () => stop(cluster, options.clock),
    trimLog: () => trimLog(cluster.logFile),
  }
}

interface Running extends Listening {
  readonly adopted: boolean
}

/** Brings the server up with the role in it; again where another process stops it in between. */
async function bringUpWithRole(cluster: Cluster, options: EmbeddedOptions): Promise<Running> {
  const { clock } = options
  const giveUpAtMs = clock.monotonicMs() + START_TIMEOUT_MS
  for (;;) {
    const running = await bringUp(cluster, options)
    const superuserUrl = urlOf(running, SUPERUSER_ROLE, cluster.password)
    try {
      await makeGatewayRole(superuserUrl, cluster.password, clock)
      if (running.adopted && (options.gateways ?? 1) > 1) await warnOfConnections(superuserUrl, options)
      return running
    } catch (error) {
      if (sqlStateOf(error) === WRONG_PASSWORD)
        throw new Error(lostPassword(join(options.dataDir, 'postgres', 'password')))
      if (!isConnectionFailure(error) || clock.monotonicMs() > giveUpAtMs) throw error
      await sleep(clock, POLL_MS)
    }
  }
}

async function bringUp(cluster: Cluster, options: EmbeddedOptions): Promise<Running> {
  const { clock } = options
  const giveUpAtMs = clock.monotonicMs() + START_TIMEOUT_MS
  let started = 0
  let child: Bun.Subprocess | null = null
  while (clock.monotonicMs() < giveUpAtMs) {
    const found = await findPostmaster(cluster.folder)
    if (found?.ready && found.port !== null) {
      return { port: found.port, socketFolder: found.socketFolder, adopted: found.pid !== child?.pid }
    }
    const starting: boolean = found !== null || (child !== null && child.exitCode === null && child.signalCode === null)
    if (!starting) {
      if (started === START_ATTEMPTS) break
      if (started > 0) await sleep(clock, 100 * started)
      started += 1
      child = await spawnServer(cluster, options)
    }
    await sleep(clock, POLL_MS)
  }
  throw new Error(
    `PostgreSQL did not start on ${cluster.folder}: ${await lastWords(cluster.logFile)} ` +
      `Its log is ${cluster.logFile}; fix the problem that it reports, or set DATABASE_URL to a server of your own.`,
  )
}

/** A server that runs on since a start with fewer gateways takes too few connections for them. */
async function warnOfConnections(superuserUrl: string, { gateways = 1, clock, log }: EmbeddedOptions): Promise<void> {
  const wanted = connectionsFor(gateways)
  const database = openClient(superuserUrl, { maxConnections: 1, clock, applicationName: 'tollgate start' })
  try {
    const rows = await database.query<{ max_connections: string }>('show max_connections')
    const taken = Number(rows[0]?.max_connections)
    if (taken >= wanted) return
    log(
      `the embedded PostgreSQL, which ran already, takes ${taken} connections, and ${gateways} gateways need ${wanted}: ` +
        'stop Tollgate once, so that it starts again with more',
    )
  } finally {
    await database.close()
  }
}

async function spawnServer(
  cluster: Cluster,
  { gateways = 1, throwAway = false }: EmbeddedOptions,
): Promise<Bun.Subprocess> {
  const socketFolder = await makeSocketFolder(cluster)
  await forgetReusedPid(cluster.folder, socketFolder)
  await writeSettings(cluster, { socketFolder, connections: connectionsFor(gateways), throwAway })
  await trimLog(cluster.logFile)
  const logTo = openSync(cluster.logFile, 'a', 0o600)
  try {
    const folder = await realpath(cluster.folder)
    const command = [programOf(cluster.binaries, 'postgres'), '-D', folder, '-p', String(SOCKET_PORT)]
    // Detached: Ctrl-C in a terminal reaches the gateway, which stops the database itself once calls are drained.
    const child = Bun.spawn(command, {
      ...identity(cluster.user),
      detached: true,
      stdin: 'ignore',
      stdout: logTo,
      stderr: logTo,
    })
    child.unref()
    return child
  } finally {
    closeSync(logTo)
  }
}

async function stop(cluster: Cluster, clock: Timers): Promise<void> {
  const found = await findPostmaster(cluster.folder)
  if (found === null) return
  // SIGINT is PostgreSQL's fast shutdown: it ends sessions, writes a checkpoint, leaves nothing to recover.
  process.kill(found.pid, 'SIGINT')
  const giveUpAtMs = clock.monotonicMs() + STOP_TIMEOUT_MS
  while ((await findPostmaster(cluster.folder))?.pid === found.pid) {
    if (clock.monotonicMs() > giveUpAtMs) {
      throw new Error(
        `PostgreSQL (process ${found.pid}) has not stopped within ${STOP_TIMEOUT_MS / SECOND_MS} s. It goes on stopping; it was not killed.`,
      )
    }
    await sleep(clock, POLL_MS)
  }
  await removeSocketFolder(cluster)
}

async function trimLog(logFile: string): Promise<void> {
  const size = (await stat(logFile).catch(() => null))?.size ?? 0
  if (size <= LOG_LIMIT_BYTES) return
  // Copied and emptied in place, because a running server goes on appending to the file it has open.
  await copyFile(logFile, `${logFile}.1`)
  await truncate(logFile, 0)
}

async function lastWords(logFile: string): Promise<string> {
  const text = await readFile(logFile, 'utf8').catch(() => '')
  // The last few lines say why a start failed; a longer excerpt would bury it.
  return text.trimEnd().split('\n').slice(-4).join(' | ').slice(-1_000) || 'it left no message.'
}
