/** The one table of SQLSTATEs. It decides for the whole server what an error of the database means. Pure. */

export interface DatabaseFault {
  /** `unavailable`: clients get 503 and may try again (E14). `broken`: a fault of ours, they get 500. */
  readonly answer: 'unavailable' | 'broken'
  /** `not_done`: nothing was carried out. `unknown`: the statement, or the commit, may have been. */
  readonly outcome: 'not_done' | 'unknown'
  /** True when work that must not be lost is tried again as it is. False: the data itself is refused, for good. */
  readonly mayTryAgain: boolean
  /**
   * - `kept`: the connection goes on
   * - `lost`: there was none to be had, or it is over; the next statement takes another
   * - `refused`: the server lets this user in no more, or has no such database
   * - `wrong`: it is to a server that takes no writes; all connections are replaced
   */
  readonly connection: 'kept' | 'lost' | 'refused' | 'wrong'
}

const fault = (
  answer: DatabaseFault['answer'],
  outcome: DatabaseFault['outcome'],
  mayTryAgain: boolean,
  connection: DatabaseFault['connection'],
): DatabaseFault => ({ answer, outcome, mayTryAgain, connection })

/** The connection ended, or the server did: nobody knows what became of the statement. */
export const LOST = fault('unavailable', 'unknown', true, 'lost')
/** The server takes no connection now. */
const NOT_LET_IN = fault('unavailable', 'not_done', true, 'lost')
/** The server, its disk, or other transactions are in the way at this moment. The transaction was rolled back. */
export const NOT_NOW = fault('unavailable', 'not_done', true, 'kept')
const REFUSED = fault('unavailable', 'not_done', true, 'refused')
const READ_ONLY = fault('unavailable', 'not_done', true, 'wrong')
const REFUSED_DATA = fault('broken', 'not_done', false, 'kept')
/** A statement that the server can't carry out. Work that must not be lost waits for a version that can, or for an operator. */
const BROKEN = fault('broken', 'not_done', true, 'kept')

/** By SQLSTATE, or by class (its first two characters) where no row has the SQLSTATE itself. All others are `BROKEN`. */
const FAULTS: ReadonlyMap<string, DatabaseFault> = new Map([
  ['08', LOST], // connection exception
  ['22', REFUSED_DATA], // data exception
  ['23', REFUSED_DATA], // integrity constraint violation
  ['25006', READ_ONLY], // read_only_sql_transaction: a standby, or a server whose operator allows no writes
  ['25P03', NOT_LET_IN], // idle_in_transaction_session_timeout
  ['25P04', NOT_LET_IN], // transaction_timeout
  ['28', REFUSED], // invalid authorization: the password was changed
  ['3D000', REFUSED], // invalid_catalog_name: no such database
  ['40', NOT_NOW], // transaction rollback: 40001 serialization_failure, 40P01 deadlock_detected
  ['40003', fault('unavailable', 'unknown', true, 'kept')], // statement_completion_unknown
  ['53', NOT_NOW], // insufficient resources: 53100 disk_full, 53200 out_of_memory, 53400 configuration_limit_exceeded
  ['53300', NOT_LET_IN], // too_many_connections
  ['55006', NOT_NOW], // object_in_use
  ['55P03', NOT_NOW], // lock_not_available
  ['57', LOST], // operator intervention: 57P01 admin_shutdown, 57P02 crash_shutdown, 57P04 database_dropped, 57P05 idle_session_timeout
  ['57014', NOT_NOW], // query_canceled: the statement's timeout, or an operator
  ['57P03', NOT_LET_IN], // cannot_connect_now: it starts, stops or recovers
  ['58', NOT_NOW], // system error: 58030 io_error
])

/** Returns what an error with this SQLSTATE means. */
export function faultOfState(sqlState: string): DatabaseFault {
  return FAULTS.get(sqlState) ?? FAULTS.get(sqlState.slice(0, 2)) ?? BROKEN
}
