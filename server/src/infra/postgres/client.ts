import { Refused, refusal } from '../../lib/errors.ts'
import type { Timers } from '../../lib/time.ts'
import { SECOND_MS, sleep } from '../../lib/time.ts'
import { type DatabaseAddress, toAddress } from './address.ts'
import type { Database, SqlParameter, Transaction } from './database.ts'
import { faultOf } from './faults.ts'

/**
 * The server ends a statement after this long. Every statement of ours is meant to take milliseconds; one that takes
 * half a minute waits for a lock that nobody will release or runs without its index.
 */
const STATEMENT_TIMEOUT_MS = 30 * SECOND_MS

/**
 * How much longer than the server's own limit an answer is waited for. Past it the server is stopped, or the network
 * swallows what it sends; nothing else would ever end the wait.
 */
const ANSWER_GRACE_MS = 5 * SECOND_MS

/** An absent host is known within this; the default of 30 s would hold a start, or a readiness check, for that long. */
export const CONNECT_TIMEOUT_SECONDS = 5

/** Statements under way when a pool is renewed may still end: those that the network swallowed never do, all others take less. */
const RENEWAL_GRACE_MS = 300

/** A server that takes no writes is left at most so often: each time opens all connections anew. */
const LEAVE_EVERY_MS = SECOND_MS

/** The seconds that a statement under way may still take when the pool is closed. */
const CLOSE_TIMEOUT_SECONDS = 5

export interface ClientOptions {
  /** Connections at most; they are opened when needed. At least 1. */
  readonly maxConnections: number
  readonly clock: Timers
  /** Shown in `pg_stat_activity`. */
  readonly applicationName?: string
  /** Milliseconds, 30 s unless given. Migrations, which may rewrite a table, ask for more. */
  readonly statementTimeoutMs?: number
}

export interface Client extends Database {
  /**
   * Opens the pool anew, under another application name: the network swallows what its connections send. New statements use new
   * connections. Those under way fail as connection failures 0.3 s later; then it resolves. It never rejects.
   */
  renew(applicationName: string): Promise<void>
}

/**
 * Opens a pool on a URL (`postgres://…`), or on an address whose host may change. Opens no connection yet: the first query
 * does. A query whose answer does not come in time fails as a connection failure (see `faults.ts`) and the whole pool is
 * replaced, so a server that hangs can't keep callers, or connections, for ever. The pool is replaced too when a server
 * takes no writes: it may be a standby now, and new connections reach its successor.
 */
export function openClient(at: string | DatabaseAddress, options: ClientOptions): Client {
  const statementTimeoutMs = options.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS
  const answerTimeoutMs = statementTimeoutMs + ANSWER_GRACE_MS
  const address = toAddress(at)
  const pool = openPool(address, options, statementTimeoutMs)

  /** Arms the deadline of one round trip; past it the pool is closed, which rejects all that it still owes. */
  function deadline(used: Bun.SQL): () => void {
    return options.clock.after(answerTimeoutMs, () => pool.replace(used, 0))
  }

  /** Replaces the pool where an error says that its connections are to the wrong server; those in use end with their work. */
  function leaveWrongServer(used: Bun.SQL, error: unknown): void {
    if (faultOf(error)?.connection !== 'wrong' || pool.ageMs() < LEAVE_EVERY_MS) return
    pool.replace(used, answerTimeoutMs)
    void address.choose().catch(() => {})
  }

  async function roundTrip<Row>(used: Bun.SQL, sql: Bun.SQL, text: string, parameters?: readonly SqlParameter[]) {
    const disarm = deadline(used)
    try {
      return await runStatement<Row>(sql, text, parameters)
    } catch (error) {
      leaveWrongServer(used, error)
      throw error
    } finally {
      disarm()
    }
  }

  async function transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T> {
    const used = pool.current()
    // BEGIN and COMMIT have deadlines of their own, since a commit can hang too; `work` in between has none.
    let disarm = deadline(used)
    try {
      // The value is boxed, because Bun would await the elements of a returned array.
      const box = await used.begin(async (sql) => {
        disarm()
        const tx: Transaction = {
          isTransaction: true,
          query: (text, parameters) => roundTrip(used, sql, text, parameters),
        }
        try {
          return { value: await work(tx) }
        } finally {
          disarm = deadline(used)
        }
      })
      return box.value
    } finally {
      disarm()
    }
  }

  const inTurn = createTurns()
  return {
    query(text, parameters) {
      const used = pool.current()
      return roundTrip(used, used, text, parameters)
    },
    transaction: (work, owner) => (owner === undefined ? transaction(work) : inTurn(owner, () => transaction(work))),
    renew: (applicationName) => pool.renew(applicationName),
    close: () => pool.close(),
  }
}

/** A pool that can be replaced by a new one with the same settings. */
interface Pool {
  current(): Bun.SQL
  /** Returns how long ago the current one was opened. */
  ageMs(): number
  /** Closes `used`, whose statements under way may go on for so long, and opens a new one if it is the current one. */
  replace(used: Bun.SQL, graceMs: number): void
  /** See {@link Client.renew}. */
  renew(applicationName: string): Promise<void>
  close(): Promise<void>
}

function openPool(address: DatabaseAddress, options: ClientOptions, statementTimeoutMs: number): Pool {
  const { clock } = options
  let applicationName = options.applicationName ?? 'tollgate'
  const open = () =>
    new Bun.SQL({
      url: address.url,
      adapter: 'postgres',
      bigint: true,
      max: options.maxConnections,
      connectionTimeout: CONNECT_TIMEOUT_SECONDS,
      connection: connectionSettings(applicationName, statementTimeoutMs),
    })
  let current = open()
  let openedAtMs = clock.monotonicMs()
  let closed = false
  const reopen = () => {
    current = open()
    openedAtMs = clock.monotonicMs()
  }
  const renew = async (nextName: string) => {
    if (closed) return
    const used = current
    applicationName = nextName
    reopen()
    await sleep(clock, RENEWAL_GRACE_MS)
    await used.close({ timeout: 0 }).catch(() => {})
  }
  const forgetMoves = address.onMoved(() => void renew(applicationName))
  return {
    current: () => current,
    ageMs: () => clock.monotonicMs() - openedAtMs,
    replace(used, graceMs) {
      if (current === used && !closed) reopen()
      void used.close({ timeout: graceMs / SECOND_MS }).catch(() => {})
    },
    renew,
    async close() {
      closed = true
      forgetMoves()
      await current.close({ timeout: CLOSE_TIMEOUT_SECONDS })
    },
  }
}

/**
 * Transactions of one owner at a time. They wait for each other at the owner's rows anyway; more than one, so that the next has begun
 * when the one before commits.
 */
const OF_ONE_OWNER = 3

/**
 * Transactions of one owner that wait, at most: as many as the requests that an organization may have open (K4), so that those are not
 * refused here. Without a bound, changes that K4 does not count could fill the memory of a process.
 */
const WAITING_MOST = 1_000

const TOO_MANY_WAIT = refusal(
  'rate_limit_exceeded',
  'Too many changes of this organization wait for its earlier ones. Nothing was done. Send fewer at once.',
  { retryAfterSeconds: 1 },
)

/**
 * Returns a function that does at most {@link OF_ONE_OWNER} works of each owner at a time, in their order, and settles as each does. It
 * rejects with {@link Refused} where {@link WAITING_MOST} wait already; the work is not begun then.
 */
function createTurns(): <T>(owner: string, work: () => Promise<T>) => Promise<T> {
  const lines = new Map<string, { busy: number; readonly waiting: (() => void)[] }>()
  return async (owner, work) => {
    const line = lines.get(owner) ?? { busy: 0, waiting: [] }
    lines.set(owner, line)
    if (line.busy < OF_ONE_OWNER) line.busy += 1
    else if (line.waiting.length >= WAITING_MOST) throw new Refused(TOO_MANY_WAIT)
    // A call that ends hands its turn on.
    else await new Promise<void>((go) => line.waiting.push(go))
    try {
      return await work()
    } finally {
      const next = line.waiting.shift()
      if (next !== undefined) next()
      else if (--line.busy === 0) lines.delete(owner)
    }
  }
}

/** Settings sent when a connection opens. They need no privilege and are the same for an embedded and a remote server. */
export function connectionSettings(applicationName: string, statementTimeoutMs: number): Record<string, string> {
  return {
    application_name: applicationName,
    statement_timeout: String(statementTimeoutMs),
    // A process that was stopped inside a transaction (SIGSTOP, a laptop's lid) must not keep row locks from others.
    idle_in_transaction_session_timeout: '60000',
    // A host that vanished without a word frees its connections, and so its advisory locks, within about a minute.
    tcp_keepalives_idle: '30',
    tcp_keepalives_interval: '10',
    tcp_keepalives_count: '3',
    timezone: 'UTC',
  }
}

/**
 * Runs one statement on a pool, a transaction or a reserved connection. With at least one parameter Bun prepares the
 * text once for each connection; without any it uses the simple protocol, which also takes several statements at once.
 */
export async function runStatement<Row>(
  sql: Bun.SQL,
  text: string,
  parameters: readonly SqlParameter[] = [],
): Promise<Row[]> {
  const rows =
    parameters.length === 0 ? await sql.unsafe<Row[]>(text) : await sql.unsafe<Row[]>(text, parameters.map(toWire))
  // A plain array: Bun's own kind carries the command and counts, and compares unequal to a list of the same rows.
  return Array.from(rows)
}

/**
 * Numbers, bigints, booleans and instants go out as text, so that the statement alone decides each parameter's type.
 * Bun would send the type of the JavaScript value, and `1`, `1.5`, `1n` and `null` would each prepare a statement of
 * their own (and 1.5 would reach a numeric column by way of a double).
 */
function toWire(parameter: SqlParameter): string | Uint8Array | null {
  if (parameter === null || typeof parameter === 'string' || parameter instanceof Uint8Array) return parameter
  return parameter instanceof Date ? parameter.toISOString() : String(parameter)
}
