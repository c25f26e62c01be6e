import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import type { ListedKey } from './key.ts'
import { clearKeyNames, selectKeysOfPerson } from './store.ts'

/** Lists at most `atMost` keys of all memberships of a person, ended ones too, in the order of their ids, after `afterId`. */
export function listKeysOfPerson(
  database: Queryable,
  userId: string,
  afterId: string | null,
  atMost: number,
): Promise<ListedKey[]> {
  return selectKeysOfPerson(database, userId, afterId, atMost)
}

/** Takes the names from these keys, which their person chose, or the machine that logged in. They are revoked already. */
export function forgetKeyNames(tx: Transaction, userId: string): Promise<void> {
  return clearKeyNames(tx, userId)
}
