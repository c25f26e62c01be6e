import type { ClientConfig, Pool } from 'pg'
import { SECOND_MS } from '../../lib/time.ts'
import type { DatabaseAddress } from './address.ts'
import { CONNECT_TIMEOUT_SECONDS, connectionSettings } from './client.ts'

/** Few: only sign-ins use it, and these wait for the computing of a hash much longer than for the database. */
const CONNECTIONS = 2
const STATEMENT_TIMEOUT_MS = 30 * SECOND_MS
/** How much longer than the server's own limit an answer is waited for. */
const ANSWER_GRACE_MS = 5 * SECOND_MS

/**
 * Opens a small pool of the package `pg`, for packages that take no other client. It opens its first connection with its
 * first statement. `onError` is told of connections that break while nobody uses them.
 */
export async function openPgPool(address: DatabaseAddress, onError: (error: unknown) => void): Promise<Pool> {
  // Loaded where people have accounts.
  const pg = await import('pg')
  const { application_name, statement_timeout } = connectionSettings('tollgate accounts', STATEMENT_TIMEOUT_MS)
  const pool = new pg.Pool({
    Client: class extends pg.Client {
      constructor(config?: ClientConfig) {
        super({ ...config, connectionString: address.url })
      }
    },
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
