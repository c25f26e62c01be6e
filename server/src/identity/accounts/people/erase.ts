import type { Transaction } from '../../../infra/postgres/database.ts'
import type { Person } from './person.ts'
import { deletePassword, deletePerson, lockPersonAndOperators } from './store.ts'

/**
 * Locks a person who is to be erased: nothing that belongs to the person can be inserted until the transaction ends. Null where there
 * is none of this id.
 */
export function lockPersonToErase(
  tx: Transaction,
  userId: string,
): Promise<{ readonly person: Person; readonly hasOtherOperators: boolean } | null> {
  return lockPersonAndOperators(tx, userId)
}

/** Removes a person's password if it is still the one with this hash, or any (null); false where it is another one meanwhile, or none. */
export function removePassword(tx: Transaction, userId: string, hash: string | null): Promise<boolean> {
  return deletePassword(tx, userId, hash)
}

/** Removes a person, with the sessions, links, passkeys and identities that there may still be. */
export function removePerson(tx: Transaction, userId: string): Promise<void> {
  return deletePerson(tx, userId)
}
