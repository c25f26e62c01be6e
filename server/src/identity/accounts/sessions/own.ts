import type { Database, Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { isUuid, type RandomBytes } from '../../../lib/ids.ts'
import type { Clock } from '../../../lib/time.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import { hashToken } from '../secrets/token.ts'
import type { SessionDependencies } from './authenticate.ts'
import type { ListedSession } from './session.ts'
import {
  deleteExpiredSessions,
  deleteSession,
  deleteSessionByToken,
  deleteSessions,
  deleteSessionsActingFor,
  deleteSessionsOf,
  selectSessions,
  updateSessionOrganization,
} from './store.ts'

/** Lists at most `atMost` sessions of a person that have not expired, the newest first, from the one after `before` on. */
export function listSessions(
  { database, clock }: SessionDependencies,
  userId: string,
  before: Pick<ListedSession, 'id' | 'createdAtMs'> | null,
  atMost: number,
): Promise<ListedSession[]> {
  return selectSessions(database, userId, clock.now(), before, atMost)
}

/** Ends a session of a person, in every process at once; false when the person has none of this id, which may be any text. */
export async function endSession(database: Queryable, userId: string, id: string): Promise<boolean> {
  return isUuid(id) && deleteSession(database, userId, id)
}

/**
 * Ends a session that a person has chosen, and writes it down; false when the person has none of this id, which may be any text.
 * `address`: the client's.
 */
export async function endChosenSession(
  { database, clock, random }: { readonly database: Database; readonly clock: Clock; readonly random: RandomBytes },
  { userId, address }: { readonly userId: string; readonly address: string | null },
  id: string,
): Promise<boolean> {
  if (!isUuid(id)) return false
  return database.transaction(async (tx) => {
    if (!(await deleteSession(tx, userId, id))) return false
    const actor = { kind: 'user', id: userId, address } as const
    const change = { organizationId: null, actor, action: 'session.ended', subjectId: id, before: null, after: null }
    await recordAuditEntry(tx, random, clock.now(), change)
    return true
  })
}

/** Has a session act for another organization of its person; false where the person is no member of it. */
export async function switchOrganization(
  { database, clock }: SessionDependencies,
  session: { readonly id: string; readonly userId: string },
  organizationId: string,
): Promise<boolean> {
  return isUuid(organizationId) && updateSessionOrganization(database, session, organizationId, clock.now())
}

/** Removes at most `atMost` sessions that have expired; returns how many. */
export function sweepSessions({ database, clock }: SessionDependencies, atMost: number): Promise<number> {
  return deleteExpiredSessions(database, clock.now(), atMost)
}

/** Ends the sessions of a person, all but one where that is named. */
export function endSessions(tx: Transaction, userId: string, keptId: string | null): Promise<void> {
  return deleteSessions(tx, userId, keptId)
}

/**
 * Ends the sessions of a person that act for an organization, in every process at once. Call it before the membership ends. Sessions that
 * act for another organization go on.
 */
export function endSessionsActingFor(tx: Transaction, userId: string, organizationId: string): Promise<void> {
  return deleteSessionsActingFor(tx, userId, organizationId)
}

/** Ends the session with this token. */
export function endSessionByToken(database: Queryable, token: string): Promise<void> {
  return deleteSessionByToken(database, hashToken(token))
}

/**
 * Ends the sessions of people who were members of an organization and are members of none any more. Those of others act for another
 * organization from then on.
 */
export function endSessionsOf(tx: Transaction, organizationId: string): Promise<void> {
  return deleteSessionsOf(tx, organizationId)
}
