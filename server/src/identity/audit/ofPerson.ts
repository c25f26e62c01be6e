/** The entries of a person: what the person did, and what was done to the person. */

import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import { uuidV7 } from '../../lib/ids.ts'
import { MINUTE_MS } from '../../lib/time.ts'
import type { AuditedPerson, OwnAuditEntry } from './entry.ts'
import { redactNotifyAddresses, redactPage, selectChangesOfPerson, selectFormerAddresses } from './store.ts'

/** Entries that one statement rewrites: it takes a part of a second, where statements may take 30. */
const REDACTED_AT_ONCE = 5_000
/** A person confirms each address by a mail. */
const FORMER_MOST = 1_000

/**
 * Lists at most `atMost` entries of what a person or a key of theirs did, and of what was done to the person, in the order of their
 * ids, after `afterId`.
 */
export function listChangesOfPerson(
  database: Queryable,
  person: AuditedPerson,
  afterId: string | null,
  atMost: number,
): Promise<OwnAuditEntry[]> {
  return selectChangesOfPerson(database, person, afterId, atMost)
}

/** Returns the addresses that a person had before, as far as the log knows, without those that somebody else has now. */
export function findFormerAddresses(database: Queryable, userId: string): Promise<string[]> {
  return selectFormerAddresses(database, userId, FORMER_MOST)
}

/** Of a transaction that was under way when an instant was read, and wrote its entry before it. Clocks differ by 2 s at most. */
const UNDER_WAY_MS = 5 * MINUTE_MS

/**
 * Takes what names a person out of the log: all of it, or the entries of an instant and later. Each entry goes on saying what happened,
 * with the person's id; names, mail addresses and the addresses that the person came from are gone. While memberships still name the
 * person. Returns how many entries were found.
 */
export async function redactChanges(tx: Transaction, person: AuditedPerson, sinceMs: number | null): Promise<number> {
  let found = 0
  let afterId = sinceMs === null ? null : lowestIdAt(sinceMs - UNDER_WAY_MS)
  for (;;) {
    const { lastId, count } = await redactPage(tx, person, afterId, REDACTED_AT_ONCE)
    found += count
    if (count < REDACTED_AT_ONCE) break
    afterId = lastId
  }
  return found + (await redactNotifyAddresses(tx, person.addresses))
}

/** Ids of entries are made of their instants. */
function lowestIdAt(epochMs: number): string {
  return uuidV7(epochMs, (length) => new Uint8Array(length))
}
