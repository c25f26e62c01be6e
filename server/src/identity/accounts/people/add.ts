import type { Transaction } from '../../../infra/postgres/database.ts'
import type { Person } from './person.ts'
import { insertPassword, insertPerson, updateEmail, updatePassword } from './store.ts'

/** Adds a person whose address is known to be theirs, with a password; false when the address is taken. */
export function addPerson(tx: Transaction, person: Person, passwordHash: string, atMs: number): Promise<boolean> {
  return insertPerson(tx, person, passwordHash, atMs)
}

/** Sets a person's password, in place of the one before. */
export function setPasswordHash(tx: Transaction, userId: string, hash: string, atMs: number): Promise<void> {
  return insertPassword(tx, userId, hash, atMs)
}

/** Sets a person's password if the one before is still the one with this hash; false where it is another one meanwhile. */
export function replacePasswordHash(
  tx: Transaction,
  userId: string,
  before: string,
  hash: string,
  atMs: number,
): Promise<boolean> {
  return updatePassword(tx, userId, before, hash, atMs)
}

/** Gives a person another mail address; false where somebody has it, or the person has another one than `before` meanwhile. */
export function replaceEmail(
  tx: Transaction,
  userId: string,
  before: string,
  email: string,
  atMs: number,
): Promise<boolean> {
  return updateEmail(tx, userId, before, email, atMs)
}
