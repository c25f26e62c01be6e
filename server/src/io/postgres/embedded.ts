import { closeSync, openSync } from 'node:fs'
import { copyFile, readFile, realpath, stat, truncate, unlink } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { Clock } from '../../kernel/time.ts'
import { SECOND_MS, sleep } from '../../kernel/time.ts'
import { programOf } from './binaries.ts'
import type { Cluster } from './cluster.ts'
import { CLUSTER_DATABASE, CLUSTER_ROLE, createCluster, identity, writeSettings } from './cluster.ts'
import { HoldLost } from './hold.ts'
import { ROOT_HOME, resolveCluster } from './home.ts'
import { findPostmaster, pidWasReused } from './postmaster.ts'

/** Recovery after a crash reads at most `max_wal_size` of log, well under a minute on a slow disk. */
const START_TIMEOUT_MS = 120 * SECOND_MS
/** A clean stop writes what is in memory; past this the server goes on stopping by itself and we leave. */
const STOP_TIMEOUT_MS = 60 * SECOND_MS
/** Starts that end at once before we give up: a port taken in between, backends of a killed server still leaving. */
const START_ATTEMPTS = 6
const POLL_MS = 4
/** The log is cut when it is longer; one older part is kept. Bounds it at twice this. */
const LOG_LIMIT_BYTES = 1024 * 1024

export interface EmbeddedOptions {
  /** The data directory; the database is `<dataDir>/postgres`. Made when absent. */
  readonly dataDir: string
  readonly clock: Clock
  readonly log: (message: string) => void
  /** For tests: no fsync. A power cut may cost the whole database. */
  readonly throwAway?: boolean
  /** Where root keeps what the database's OS user can't reach; `/var/lib/tollgate` unless given. */
  readonly rootHome?: string
}

/** A database server of our own that runs, whether we started it or found it running. */
export interface EmbeddedServer {
  /** `postgres://…` with the password: a secret. Stays the same for the life of this object. */
  readonly url: string
  /** True when the server was running already (started by another process, or left by a killed one). */
  readonly adopted: boolean
  /** Starts the server again, on the same port, if it has gone. @throws HoldLost when it had to take another port. */
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
  const throwAway = options.throwAway ?? false
  await createCluster(cluster, throwAway)
  const first = await bringUp(cluster, options, throwAway, await lastPort(cluster))
  return {
    url: `postgres://${CLUSTER_ROLE}:${cluster.password}@127.0.0.1:${first.port}/${CLUSTER_DATABASE}`,
    adopted: first.adopted,
    async ensureRunning() {
      const { port } = await bringUp(cluster, options, throwAway, first.port)
      if (port !== first.port) {
        throw new HoldLost(`The database came back on port ${port} instead of ${first.port}; start Tollgate again.`)
      }
    },
    stop: () => stop(cluster, options.clock),
    trimLog: () => trimLog(cluster.logFile),
  }
}

interface Running {
  readonly port: number
  readonly adopted: boolean
}

async function bringUp(
  cluster: Cluster,
  options: EmbeddedOptions,
  throwAway: boolean,
  usualPort: number | null,
): Promise<Running> {
  const { clock } = options
  const giveUpAtMs = clock.monotonicMs() + START_TIMEOUT_MS
  let started = 0
  let child: Bun.Subprocess | null = null
  while (clock.monotonicMs() < giveUpAtMs) {
    const found = await findPostmaster(cluster.folder)
    if (found?.ready && found.port !== null) return { port: found.port, adopted: found.pid !== child?.pid }
    const starting: boolean = found !== null || (child !== null && child.exitCode === null && child.signalCode === null)
    if (!starting) {
      if (started === START_ATTEMPTS) break
      if (started > 0) await sleep(clock, 100 * started)
      started += 1
      // The usual port first, so that who knows it finds the server again; another one if it stays taken.
      const port = usualPort !== null && started < START_ATTEMPTS / 2 ? usualPort : await freePort()
      child = await spawnServer(cluster, throwAway, port)
    }
    await sleep(clock, POLL_MS)
  }
  throw new Error(
    `PostgreSQL did not start on ${cluster.folder}: ${await lastWords(cluster.logFile)} ` +
      `Its log is ${cluster.logFile}; mend what it names, or set DATABASE_URL to a server of your own.`,
  )
}

async function spawnServer(cluster: Cluster, throwAway: boolean, port: number): Promise<Bun.Subprocess> {
  // PostgreSQL clears away the file of a dead server itself, but not when another program has its process id by now.
  if (await pidWasReused(cluster.folder)) await unlink(join(cluster.folder, 'postmaster.pid'))
  await writeSettings(cluster, throwAway)
  await trimLog(cluster.logFile)
  const logTo = openSync(cluster.logFile, 'a', 0o600)
  try {
    const command = [programOf(cluster.binaries, 'postgres'), '-D', await realpath(cluster.folder), '-p', String(port)]
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

/** The port of the last start, which a killed or cleanly stopped server leaves in `postmaster.opts`. */
async function lastPort(cluster: Cluster): Promise<number | null> {
  const text = await readFile(join(cluster.folder, 'postmaster.opts'), 'utf8').catch(() => '')
  const port = Number(/"-p" "(\d+)"/.exec(text)?.[1])
  return port > 0 ? port : null
}

/** A port that is free now. Another program may take it before PostgreSQL does; then the start is tried again. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}

async function stop(cluster: Cluster, clock: Clock): Promise<void> {
  const found = await findPostmaster(cluster.folder)
  if (found === null) return
  // SIGINT is PostgreSQL's fast shutdown: it ends sessions, writes a checkpoint, leaves nothing to recover.
  process.kill(found.pid, 'SIGINT')
  const giveUpAtMs = clock.monotonicMs() + STOP_TIMEOUT_MS
  while ((await findPostmaster(cluster.folder))?.pid === found.pid) {
    if (clock.monotonicMs() > giveUpAtMs) {
      throw new Error(
        `PostgreSQL (process ${found.pid}) is still stopping after ${STOP_TIMEOUT_MS / SECOND_MS} s and was left to it.`,
      )
    }
    await sleep(clock, POLL_MS)
  }
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
