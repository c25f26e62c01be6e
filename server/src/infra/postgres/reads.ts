/** Reads for answers to clients: none waits for the database for longer than a client is kept waiting. */

import { SECOND_MS, type Timers, within } from '../../lib/time.ts'
import type { DatabaseAddress } from './address.ts'
import { type Client, openClient } from './client.ts'
import type { Database } from './database.ts'
import { ReadTimeout } from './faults.ts'

/**
 * A read is given up after this, and its client is told to try again (E14). A read of ours takes milliseconds; one that takes
 * seconds waits for a lock, for a connection or for a server that is silent.
 */
const READ_TIMEOUT_MS = 5 * SECOND_MS

/** Few: each is free again after {@link READ_TIMEOUT_MS}, and charges never wait for one of them. */
const READ_CONNECTIONS = 4

/**
 * Opens a pool for reads beside the pool of everything else. The server ends their statements at the timeout, so that a locked table
 * keeps these connections for seconds only.
 */
export function openReads(address: DatabaseAddress, clock: Timers, applicationName = 'tollgate reads'): Client {
  return openClient(address, {
    maxConnections: READ_CONNECTIONS,
    clock,
    applicationName,
    statementTimeoutMs: READ_TIMEOUT_MS,
  })
}

/** A pool for reads; a transaction lets several statements see the same. */
export type Reads = Pick<Database, 'query' | 'transaction'>

/** Returns `database` for reads alone: a statement or transaction that has not ended within 5 s fails with {@link ReadTimeout}. */
export function boundReads(database: Reads, clock: Timers): Reads {
  const bound = async <T>(work: Promise<T>): Promise<T> => {
    const done = await within(clock, READ_TIMEOUT_MS, work, LATE)
    if (done === LATE) throw new ReadTimeout(`the database did not answer a read within ${READ_TIMEOUT_MS} ms`)
    return done
  }
  return {
    query: <Row>(...statement: Parameters<Reads['query']>) => bound(database.query<Row>(...statement)),
    transaction: (work, owner) => bound(database.transaction(work, owner)),
  }
}

const LATE = Symbol()
