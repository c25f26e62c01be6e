import { createHash, randomUUID } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Timers } from '../../lib/time.ts'
import { MINUTE_MS, sleep } from '../../lib/time.ts'
import { type DatabaseAddress, readHosts, toAddress } from './address.ts'
import { endBackends } from './backends.ts'
import { type Client, openClient } from './client.ts'
import type { Database } from './database.ts'
import { isUnanswered } from './faults.ts'
import type { KeptSession } from './keptSession.ts'
import { keepSession } from './keptSession.ts'
import { takeOwnership } from './ownership.ts'
import { refuseTransactionPooler } from './pooler.ts'
import { keepToken, newToken, readDeadToken } from './processToken.ts'
import { openReads, type Reads } from './reads.ts'
import type { Session, SessionName } from './session.ts'
import { applicationNameOf, openSession } from './session.ts'
import { NoHostTakesWrites, severalHosts } from './severalHosts.ts'
import { joinServer, leaveServer, rejoinServer } from './sharedServer.ts'

const TRIM_LOG_INTERVAL_MS = 10 * MINUTE_MS
/** Group commit, reads beside it, and work in the background; PostgreSQL takes at least 200 here, 100 by default elsewhere. */
export const SERVER_CONNECTIONS = 12
/** A server that starts while the network is cut waits so long for it. */
const START_PATIENCE_MS = 2 * MINUTE_MS
const START_POLL_MS = 500
/** Opened all at once with the first statement, so a command that does little asks for few. */
const COMMAND_CONNECTIONS = 2

export interface OpenOptions {
  readonly dataDir: string
  /** PostgreSQL of the operator's own; null for the embedded one. */
  readonly databaseUrl: string | null
  readonly clock: Timers
  /** `server` takes the data directory for itself; `command` works beside a server, or without one. */
  readonly role: 'server' | 'command'
  /** Gateways that this process starts on it; 1 unless given. An embedded server takes connections for them. */
  readonly gateways?: number
  readonly log: (message: string) => void
  /** Milliseconds a statement may take; 30 s unless given. */
  readonly statementTimeoutMs?: number
  /** The database, or the right to it, is lost and can't be had again: stop serving. Called at most once. */
  readonly onLost?: (reason: string) => void
}

export interface OpenedDatabase {
  readonly database: Database
  /** A pool beside it for reads whose clients wait. */
  readonly reads: Reads
  /** For sessions and listeners; stays valid over restarts of the embedded server. */
  readonly address: DatabaseAddress
  /** A secret: the URL by which another process opens it. It may name several hosts. */
  readonly url: string
  readonly embedded: boolean
  /** Names this process's connections, so that it can end those that a failed network leaves behind. Null for a command. */
  readonly token: string | null
  /** Closes the pool, gives up the locks, and stops the embedded server when nobody else uses it. */
  release(): Promise<void>
}

/** A way to a database, with the locks that go with its use. */
interface Access {
  readonly address: DatabaseAddress
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
  const { databaseUrl, role, clock } = options
  const token = role === 'server' ? newToken() : null
  const pools = new OwnPools(role, token)
  const means = { ...options, token, onBack: (session: Session) => pools.renew(session) }
  const access = databaseUrl === null ? await accessEmbedded(means) : await accessExternal(databaseUrl, means)
  const database = openClient(access.address, {
    maxConnections: role === 'server' ? SERVER_CONNECTIONS : COMMAND_CONNECTIONS,
    clock,
    applicationName: pools.name,
    ...(options.statementTimeoutMs === undefined ? {} : { statementTimeoutMs: options.statementTimeoutMs }),
  })
  const reads = openReads(access.address, clock, pools.readsName)
  pools.clients = { database, reads }
  return {
    database,
    reads,
    address: access.address,
    url: databaseUrl ?? access.address.url,
    embedded: databaseUrl === null,
    token,
    async release() {
      await Promise.all([database.close(), reads.close()])
      await access.release()
    },
  }
}

/** The pools of this process, which are opened anew when the network has swallowed what their connections sent. */
class OwnPools {
  clients: { readonly database: Client; readonly reads: Client } | null = null
  private readonly role: OpenOptions['role']
  private readonly token: string | null
  private renewals = 0

  constructor(role: OpenOptions['role'], token: string | null) {
    this.role = role
    this.token = token
  }

  get name(): string {
    return this.nameOf(this.role)
  }

  get readsName(): string {
    return this.nameOf('reads')
  }

  /** Renews the pools. Ends their former connections by `session`: they may have rows locked, in transactions that nobody goes on with. */
  async renew(session: Session): Promise<void> {
    const former = [this.name, this.readsName]
    this.renewals += 1
    await Promise.all([this.clients?.database.renew(this.name), this.clients?.reads.renew(this.readsName)])
    // Should it fail, the server ends idle transactions within a minute.
    if (this.token !== null) for (const name of former) await endBackends(session, name).catch(() => {})
  }

  /** Differs from renewal to renewal, so that the connections of one can be told from those of the next. */
  private nameOf(kind: string): string {
    return applicationNameOf({ kind: this.renewals === 0 ? kind : `${kind}.${this.renewals}`, token: this.token })
  }
}

interface AccessOptions extends OpenOptions {
  readonly token: string | null
  /** The database is reached again, after the session before this one had fallen silent. Does not reject. */
  readonly onBack: (session: Session) => Promise<void>
}

async function accessEmbedded(options: AccessOptions): Promise<Access> {
  const { clock, token } = options
  const name: SessionName = { kind: 'holder', token }
  const joined = await joinServer(options, name)
  const { server } = joined
  const leave = (session: Session) => leaveServer(server, session)
  let joinedSession: Session | null = joined.session
  const connect = async () => {
    const session = joinedSession ?? (await rejoinServer(server, clock, name))
    joinedSession = null
    return session
  }
  // In a database of its own a data directory needs no name.
  const holding = await keep(options, 0, connect, leave)
  const stopTrimming = every(clock, TRIM_LOG_INTERVAL_MS, () => server.trimLog())
  return {
    address: toAddress(server.url),
    async release() {
      stopTrimming()
      holding.letGo()
      await leave(holding.session())
    },
  }
}

async function accessExternal(url: string, options: AccessOptions): Promise<Access> {
  const { token, dataDir } = options
  const address = addressOf(url, options)
  if (options.role === 'command') {
    await address.choose()
    return { address, release: async () => {} }
  }
  const lockId = await lockIdOf(dataDir)
  let isNoPooler = false
  const connect = async () => {
    await address.choose()
    if (!isNoPooler) await refuseTransactionPooler(address.url, options.clock)
    isNoPooler = true
    return await openSession(address, options.clock, { kind: 'holder', token })
  }
  const holding = await untilAnswered(options, () => keep(options, lockId, connect, (session) => session.close()))
  return {
    address,
    async release() {
      holding.letGo()
      await holding.session().close()
    },
  }
}

/** Reads the URL of an external database. @throws where it names none; the settings have refused it before. */
function addressOf(text: string, { clock, log }: OpenOptions): DatabaseAddress {
  const [first, ...others] = readHosts(text)?.urls ?? []
  if (first === undefined) throw new Error('DATABASE_URL is no address of PostgreSQL')
  if (others.length === 0) return toAddress(first)
  const onRivals = (hosts: readonly string[]) =>
    log(`${hosts.join(' and ')} in DATABASE_URL take writes: each gets charges of its own. Stop all but the primary`)
  return severalHosts([first, ...others], clock, onRivals)
}

/** Repeats `work` while nothing comes back from the server, or none of several takes writes, for two minutes at most. */
async function untilAnswered<T>({ clock, log }: OpenOptions, work: () => Promise<T>): Promise<T> {
  const giveUpAtMs = clock.monotonicMs() + START_PATIENCE_MS
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await work()
    } catch (error) {
      if (!(isUnanswered(error) || error instanceof NoHostTakesWrites) || clock.monotonicMs() > giveUpAtMs) throw error
      const patience = `waiting for it for up to ${START_PATIENCE_MS / MINUTE_MS} minutes`
      if (isFirst) log(`the database in DATABASE_URL does not answer; ${patience}: ${(error as Error).message}`)
      await sleep(clock, START_POLL_MS)
    }
  }
}

/** Keeps a session with the locks of this process. `end` ends one that could not have them. */
function keep(
  options: AccessOptions,
  lockId: number,
  connect: () => Promise<Session>,
  end: (session: Session) => Promise<void>,
): Promise<KeptSession> {
  const { clock, log, role, dataDir, token } = options
  let former: Session | null = null
  const prepare = async (session: Session) => {
    if (role === 'command' || token === null) return
    const dead = former === null ? await readDeadToken(dataDir) : null
    if (dead !== null) await endBackends(session, `% ${dead}`)
    if (former?.fellSilent === true) void options.onBack(session)
    await takeOwnership(session, { lockId, dataDir, clock, log })
    if (former === null) {
      // A full disk keeps no server from starting. Then the next one waits where it could have ended.
      await keepToken(dataDir, token).catch((error: Error) => log(`process.json is not written: ${error.message}`))
    }
  }
  const connectAndOwn = async () => {
    const session = await connect()
    try {
      await prepare(session)
    } catch (error) {
      await end(session)
      throw error
    }
    former = session
    return session
  }
  return keepSession(connectAndOwn, { clock, log, onLost: (reason) => options.onLost?.(reason) })
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
