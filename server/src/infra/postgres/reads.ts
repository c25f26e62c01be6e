/** Reads for answers to clients: none waits for the database for longer than a client is kept waiting. */

import { SECOND_MS, type Timers, within } from '../../lib/time.ts'
import { type Client, openClient, sqlStateOf } from './client.ts'
import type { Queryable } from './database.ts'

/**
 * A read is given up after this, and its client is told to try again (E14). A read of ours takes milliseconds; one that takes
 * seconds waits for a lock, for a connection or for a server that is silent.
 */
const READ_TIMEOUT_MS = 5 * SECOND_MS

/** Few: each is free again after {@link READ_TIMEOUT_MS}, and charges never wait for one of them. */
const READ_CONNECTIONS = 4

/** The server's error when a statement is ended at its timeout. */
const QUERY_CANCELED = '57014'

/** A read that was not answered in time. Nothing was changed by it. */
export class ReadTimeout extends Error {
  override readonly name = 'ReadTimeout'
}

/**
 * Opens a pool for reads beside the pool of everything else. The server ends their statements at the timeout, so that a locked table
 * keeps these connections for seconds only.
 */
export function openReads(url: string, clock: Timers, applicationName = 'tollgate reads'): Client {
  return openClient(url, {
    maxConnections: READ_CONNECTIONS,
    clock,
    applicationName,
    statementTimeoutMs: READ_TIMEOUT_MS,
  })
}

/** Returns `database` for reads alone: a statement that is not answered within 5 s fails with {@link ReadTimeout}. */
export function boundReads(database: Queryable, clock: Timers): Queryable {
  return {
    async query<Row>(...statement: Parameters<Queryable['query']>): Promise<Row[]> {
      const reading = database.query<Row>(...statement).catch((error: unknown) => {
        if (sqlStateOf(error) !== QUERY_CANCELED) throw error
        throw new ReadTimeout('the server ended a read at its timeout', { cause: error })
      })
      const rows = await within(clock, READ_TIMEOUT_MS, reading, null)
      if (rows === null) throw new ReadTimeout(`the database did not answer a read within ${READ_TIMEOUT_MS} ms`)
      return rows
    },
  }
}
