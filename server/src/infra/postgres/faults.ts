/** Finds out what an error of the database means, by the one table of SQLSTATEs (`sqlStates.ts`). */

import { type DatabaseFault, faultOfState, LOST, NOT_NOW } from './sqlStates.ts'

const SQL_STATE = /^[0-9A-Z]{5}$/

/** A read that was not answered in time. Nothing was changed by it. */
export class ReadTimeout extends Error {
  override readonly name = 'ReadTimeout'
}

/** Returns what an error means; null where it is none of the database. */
export function faultOf(error: unknown): DatabaseFault | null {
  if (error instanceof ReadTimeout) return NOT_NOW
  const state = sqlStateOf(error)
  // Of the class of refused data, and no refusal: the partition is made, and the row tried again.
  if (state !== null)
    return isPartitionMissing(error) ? { ...faultOfState(state), mayTryAgain: true } : faultOfState(state)
  return isBroughtOff(error) ? LOST : null
}

/** The SQLSTATE that the server gave with an error (such as `23505`), or null when the error is not the server's. */
export function sqlStateOf(error: unknown): string | null {
  // The package `pg`, which sign-ins use, has it in `code`.
  const state = error instanceof Bun.SQL.PostgresError ? error.errno : isOfPackagePg(error) ? error.code : null
  return typeof state === 'string' && SQL_STATE.test(state) ? state : null
}

function isOfPackagePg(error: unknown): error is { readonly code: unknown } {
  return error instanceof Error && error.name === 'error' && 'severity' in error && 'code' in error
}

/** Returns whether the client itself says that the server was not reached, went away, or did not answer. */
function isBroughtOff(error: unknown): boolean {
  if (error instanceof Bun.SQL.PostgresError) return /^ERR_POSTGRES_(CONNECTION|IDLE_TIMEOUT|LIFETIME)/.test(error.code)
  return false
}

/** The name of the foreign key by which a row names another that is not there; null when the error is another one. */
export function missingReferenceOf(error: unknown): string | null {
  if (!(error instanceof Bun.SQL.PostgresError) || sqlStateOf(error) !== '23503') return null
  return error.constraint ?? null
}

/**
 * True when a row found no partition to go into. The SQLSTATE is that of any violated check and the message may be
 * translated; the function of the server that reports it is its own.
 */
function isPartitionMissing(error: unknown): boolean {
  return error instanceof Bun.SQL.PostgresError && error.routine === 'ExecFindPartition'
}

/**
 * True when the server was not reached, went away, or did not answer. **The statement, or the commit, may have been
 * carried out all the same**, unless {@link faultOf} says that it was not: find out by its unique id.
 */
export function isConnectionFailure(error: unknown): boolean {
  return faultOf(error)?.connection === 'lost'
}

/** True when nothing came back: the network swallows what is sent, or the server is stopped. Not where a host refuses, or can't be found. */
export function isUnanswered(error: unknown): boolean {
  return isConnectionFailure(error) && /_CONNECTION_(TIMEOUT|FAILED|CLOSED)$/.test((error as { code: string }).code)
}

/** Returns whether clients are told to try again (503), and not of a fault of ours (500) (E14). */
export function isDatabaseAway(error: unknown): boolean {
  return faultOf(error)?.answer === 'unavailable'
}

/** Returns whether the database refuses the data of a statement for good. */
export function isRefusedData(error: unknown): boolean {
  return faultOf(error)?.mayTryAgain === false
}

/**
 * Returns whether it is known that nothing was carried out. False where that is unknown, or the error is none of the
 * database.
 */
export function isNothingDone(error: unknown): boolean {
  return faultOf(error)?.outcome === 'not_done'
}
