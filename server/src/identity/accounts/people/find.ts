import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import type { Person, PersonDetails } from './person.ts'
import {
  lockPassword,
  lockPersonRow,
  selectAnyPerson,
  selectPassword,
  selectPasswordByEmail,
  selectPersonByEmail,
  selectPersonById,
  selectPersonDetails,
  selectSettledPassword,
} from './store.ts'

/** Returns whether anybody has an account. */
export function isAnybodyThere(database: Queryable): Promise<boolean> {
  return selectAnyPerson(database)
}

/** The person with an address, in lower case; null where there is none. */
export function findPersonByEmail(database: Queryable, email: string): Promise<Person | null> {
  return selectPersonByEmail(database, email)
}

/** The person of an id; null where there is none. */
export function findPersonById(database: Queryable, id: string): Promise<Person | null> {
  return selectPersonById(database, id)
}

/** Everything that is stored of a person but the password; null where there is none of this id. */
export function findPersonDetails(database: Queryable, id: string): Promise<PersonDetails | null> {
  return selectPersonDetails(database, id)
}

/** The hash of a person's password; null where the person has none. */
export function findPasswordHash(database: Queryable, userId: string): Promise<string | null> {
  return selectPassword(database, userId)
}

/** The same by the person's address; null too where nobody has it. */
export function findPasswordHashByEmail(database: Queryable, email: string): Promise<string | null> {
  return selectPasswordByEmail(database, email)
}

/** The same, once every change of it that is under way has been committed or given up. */
export function findSettledPasswordHash(database: Queryable, email: string): Promise<string | null> {
  return selectSettledPassword(database, email)
}

/**
 * Returns when a person's password was set, in milliseconds since the epoch; null where the person has none. Nobody sets
 * another one until the end of the transaction.
 */
export async function passwordSetAtMs(tx: Transaction, userId: string): Promise<number | null> {
  return (await lockPassword(tx, userId))?.getTime() ?? null
}

/** Has other changes to the same person wait until the transaction ends. */
export function lockPerson(tx: Transaction, userId: string): Promise<void> {
  return lockPersonRow(tx, userId)
}
