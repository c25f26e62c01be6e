/** The balance of an account: opened, moved by entries of the ledger, and read. Charges and shares move it elsewhere. */

import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import type { LedgerEntry } from './entry.ts'
import { insertAccount, insertEntry, selectBalance, selectBalances } from './store.ts'

/** Opens an organization's account with nothing in it. Does nothing where it is open already. */
export function openAccount(db: Queryable, organizationId: string): Promise<void> {
  return insertAccount(db, organizationId)
}

/** Posts an entry to the ledger and to the balance. Returns false, and changes nothing, where its source was posted before. */
export function postLedgerEntry(tx: Transaction, entry: LedgerEntry): Promise<boolean> {
  return insertEntry(tx, entry)
}

/** Returns the exact balance in micro-cents, every posted charge included; it may be negative. 0 where there is no account. */
export async function readBalance(database: Queryable, organizationId: string): Promise<bigint> {
  return (await selectBalance(database, organizationId)) ?? 0n
}

/** Returns the exact balances of organizations in micro-cents, by their ids; 0 of one that never had an account is left out. */
export function readBalances(database: Queryable, organizationIds: readonly string[]): Promise<Map<string, bigint>> {
  return selectBalances(database, organizationIds)
}
