import type { ClientConfig, Pool } from 'pg'
import { SECOND_MS } from '../../lib/time.ts'
import type { DatabaseAddress } from './address.ts'
import { CONNECT_TIMEOUT_SECONDS, connectionSettings } from './client.ts'

type Pg = typeof import('pg')

/** Few: only sign-ins use it, and these wait for the computing of a hash much longer than for the database. */
const CONNECTIONS = 2
const STATEMENT_TIMEOUT_MS = 30 * SECOND_MS
/** How much longer than the server's own limit an answer is waited for. */
const ANSWER_GRACE_MS = 5 * SECOND_MS

/** Anybody who answers is believed, as in `client.ts` with the same `sslmode`. */
const UNVERIFIED = { rejectUnauthorized: false }
/** In the words of the package `pg`. */
const NO_ANSWER = 'Query read timeout'
const TAKES_NO_TLS = 'The server does not support SSL connections'

/**
 * Opens a small pool of the package `pg`, for packages that take no other client. `sslmode` means the same as in `client.ts`. It opens
 * its first connection with its first statement; but with `prefer` and `allow` it asks now whether the server takes TLS, and stays with
 * the answer, since `pg` does not fall back. A connection is given up after a statement without an answer, and when another host comes into
 * use. `onError` is told of connections that break while nobody uses them.
 *
 * @throws with `prefer` and `allow`, where the server is not reached.
 */
export async function openPgPool(address: DatabaseAddress, onError: (error: unknown) => void): Promise<Pool> {
  // Loaded where people have accounts.
  const pg = await import('pg')
  const { application_name, statement_timeout } = connectionSettings('tollgate accounts', STATEMENT_TIMEOUT_MS)
  const mode = new URL(address.url).searchParams.get('sslmode')
  const tls = await tlsOf(mode, () => takesTls(pg, address))
  const pool = new pg.Pool({
    Client: clientOf(pg, address, tls),
    max: CONNECTIONS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_SECONDS * SECOND_MS,
    statement_timeout: Number(statement_timeout),
    query_timeout: STATEMENT_TIMEOUT_MS + ANSWER_GRACE_MS,
    application_name,
    // A pool that is not used keeps no process from ending.
    allowExitOnIdle: true,
  })
  pool.on('error', onError)
  return pool
}

/** Returns the class of the pool's clients. The pool replaces one whose connection has ended. */
function clientOf(pg: Pg, address: DatabaseAddress, tls: Pick<ClientConfig, 'ssl'>) {
  return class extends pg.Client {
    constructor(config?: ClientConfig) {
      super({ ...config, connectionString: withoutMode(address.url), ...tls })
      const forgetMoves = address.onMoved(() => {
        // The pool hears it in this step and hands an idle client to nobody. The end of the connection it would hear later.
        this.emit('error', new Error('another host of the database came into use'))
        this.connection.stream.destroy()
      })
      this.once('end', forgetMoves)
      // The statement under way fails. A client that is in use has no other listener, and without one the process would end.
      this.on('error', () => {})
    }

    /**
     * Does as `pg` does, and ends the connection after a statement without an answer: `pg` would put all further statements behind that
     * one. The type fits all forms that `pg` declares.
     */
    override query(...given: unknown[]): never {
      const endIfSilent = (error: unknown) => {
        // From here on the pool hands this client to nobody.
        if (error instanceof Error && error.message === NO_ANSWER) void this.end()
      }
      const callback = given.at(-1)
      if (typeof callback === 'function') {
        given[given.length - 1] = (error: unknown, answer: unknown) => {
          endIfSilent(error)
          callback(error, answer)
        }
      }
      const answer: unknown = Reflect.apply(super.query, this, given)
      if (answer instanceof Promise) void answer.catch(endIfSilent)
      return answer as never
    }
  }
}

/**
 * Returns what a mode asks of TLS; nothing where there is none. `pg` would verify certificate and name with each mode but `disable`
 * (its version 8), so it is never shown the mode.
 */
async function tlsOf(mode: string | null, isOffered: () => Promise<boolean>): Promise<Pick<ClientConfig, 'ssl'>> {
  switch (mode) {
    case null:
      return {}
    case 'disable':
      return { ssl: false }
    case 'prefer':
    case 'allow':
      return { ssl: (await isOffered()) ? UNVERIFIED : false }
    case 'require':
      return { ssl: UNVERIFIED }
    case 'verify-ca':
      return { ssl: { checkServerIdentity: () => undefined } }
    // `verify-full`, and any that may yet come.
    default:
      return { ssl: true }
  }
}

function withoutMode(text: string): string {
  const url = new URL(text)
  if (!url.searchParams.has('sslmode')) return text
  url.searchParams.delete('sslmode')
  return url.toString()
}

async function takesTls(pg: Pg, address: DatabaseAddress): Promise<boolean> {
  const client = new pg.Client({
    connectionString: withoutMode(address.url),
    connectionTimeoutMillis: CONNECT_TIMEOUT_SECONDS * SECOND_MS,
    ssl: UNVERIFIED,
  })
  try {
    await client.connect()
    return true
  } catch (error) {
    if (error instanceof Error && error.message === TAKES_NO_TLS) return false
    throw error
  } finally {
    await client.end()
  }
}
