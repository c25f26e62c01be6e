import { createHash, randomUUID } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Timers } from '../../lib/time.ts'
import { MINUTE_MS } from '../../lib/time.ts'
import { openClient } from './client.ts'
import type { Database, Queryable } from './database.ts'
import type { KeptSession } from './keptSession.ts'
import { keepSession, takeOwnership } from './keptSession.ts'
import { refuseTransactionPooler } from './pooler.ts'
import { openReads } from './reads.ts'
import type { Session } from './session.ts'
import { openSession } from './session.ts'
import { joinServer, leaveServer, rejoinServer } from './sharedServer.ts'

const TRIM_LOG_INTERVAL_MS = 10 * MINUTE_MS
/** Group commit, reads beside it, and work in the background; PostgreSQL takes 200 here, 100 by default elsewhere. */
const SERVER_CONNECTIONS = 12
/** Opened all at once with the first statement, so a command that does little asks for few. */
const COMMAND_CONNECTIONS = 2

export interface OpenOptions {
  readonly dataDir: string
  /** PostgreSQL of the operator's own; null for the embedded one. */
  readonly databaseUrl: string | null
  readonly clock: Timers
  /** `server` takes the data directory for itself; `command` works beside a server, or without one. */
  readonly role: 'server' | 'command'
  readonly log: (message: string) => void
  /** Milliseconds a statement may take; 30 s unless given. */
  readonly statementTimeoutMs?: number
  /** The database, or the right to it, is lost and can't be had again: stop serving. Called at most once. */
  readonly onLost?: (reason: string) => void
}

export interface OpenedDatabase {
  readonly database: Database
  /** A pool beside it for reads whose clients wait. */
  readonly reads: Queryable
  /** A secret. For sessions and listeners; stays valid over restarts of the embedded server. */
  readonly url: string
  readonly embedded: boolean
  /** Closes the pool, gives up the locks, and stops the embedded server when nobody else uses it. */
  release(): Promise<void>
}

/** A way to a database, with the locks that go with its use. */
interface Access {
  readonly url: string
  release(): Promise<void>
}

/**
 * Opens the database of a data directory. An embedded server that goes away while it is open is started again.
 *
 * @throws SessionOwnershipLost for role `server` when another server has the data directory; else what is wrong with the
 * database, with what to do.
 */
export async function openDatabase(given: OpenOptions): Promise<OpenedDatabase> {
  const options = { ...given, dataDir: resolve(given.dataDir) }
  const { databaseUrl } = options
  const access = databaseUrl === null ? await accessEmbedded(options) : await accessExternal(databaseUrl, options)
  const database = openClient(access.url, {
    maxConnections: options.role === 'server' ? SERVER_CONNECTIONS : COMMAND_CONNECTIONS,
    clock: options.clock,
    applicationName: `tollgate ${options.role}`,
    ...(options.statementTimeoutMs === undefined ? {} : { statementTimeoutMs: options.statementTimeoutMs }),
  })
  const reads = openReads(access.url, options.clock)
  return {
    database,
    reads,
    url: access.url,
    embedded: databaseUrl === null,
    async release() {
      await Promise.all([database.close(), reads.close()])
      await access.release()
    },
  }
}

async function accessEmbedded(options: OpenOptions): Promise<Access> {
  const { clock } = options
  const joined = await joinServer(options)
  const { server } = joined
  const leave = (session: Session) => leaveServer(server, session)
  let joinedSession: Session | null = joined.session
  const holding = await keep(options, async () => {
    const session = joinedSession ?? (await rejoinServer(server, clock))
    joinedSession = null
    // In a database of its own a data directory needs no name.
    if (options.role === 'server') await own(session, 0, options, leave)
    return session
  })
  const stopTrimming = every(clock, TRIM_LOG_INTERVAL_MS, () => server.trimLog())
  return {
    url: server.url,
    async release() {
      stopTrimming()
      holding.letGo()
      await leave(holding.session())
    },
  }
}

async function accessExternal(url: string, options: OpenOptions): Promise<Access> {
  if (options.role === 'command') return { url, release: async () => {} }
  await refuseTransactionPooler(url)
  const lockId = await lockIdOf(options.dataDir)
  const holding = await keep(options, async () => {
    const session = await openSession(url, options.clock, 'tollgate holder')
    await own(session, lockId, options, (refused) => refused.close())
    return session
  })
  return {
    url,
    async release() {
      holding.letGo()
      await holding.session().close()
    },
  }
}

function keep(options: OpenOptions, connect: () => Promise<Session>): Promise<KeptSession> {
  const { clock, log } = options
  return keepSession(connect, { clock, log, onLost: (reason) => options.onLost?.(reason) })
}

async function own(
  session: Session,
  lockId: number,
  options: OpenOptions,
  giveUp: (session: Session) => Promise<void>,
) {
  try {
    await takeOwnership(session, lockId, options.dataDir, options.clock)
  } catch (error) {
    await giveUp(session)
    throw error
  }
}

/** In a database that several installations may share, a data directory is known by an id that is kept in it. */
async function lockIdOf(dataDir: string): Promise<number> {
  const path = join(dataDir, 'id')
  await mkdir(dataDir, { recursive: true })
  await writeFile(path, `${randomUUID()}\n`, { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  return createHash('sha256')
    .update(await readFile(path, 'utf8'))
    .digest()
    .readInt32BE(0)
}

/** Repeats `work`, never two at once; the result ends it. A run that fails is only missed: the next one makes up. */
function every(clock: Timers, intervalMs: number, work: () => Promise<void>): () => void {
  let ended = false
  let cancel = () => {}
  const arm = () => {
    if (!ended) cancel = clock.after(intervalMs, () => void work().then(arm, arm))
  }
  arm()
  return () => {
    ended = true
    cancel()
  }
}
