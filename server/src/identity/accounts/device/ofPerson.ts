import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import type { OwnDeviceLogin } from './deviceLogin.ts'
import { deleteOwnLogins, selectOwnLogins } from './store.ts'

/** Lists at most `atMost` logins that a person has claimed, or decided on, in the order of their ids, after `afterId`. */
export function listOwnLogins(
  database: Queryable,
  userId: string,
  afterId: string | null,
  atMost: number,
): Promise<OwnDeviceLogin[]> {
  return selectOwnLogins(database, userId, afterId, atMost)
}

/** Removes these logins: their programs get no key. */
export function removeOwnLogins(tx: Transaction, userId: string): Promise<void> {
  return deleteOwnLogins(tx, userId)
}
