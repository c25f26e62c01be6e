import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import type { NamedInvitation } from './invitation.ts'
import { deleteInvitationsTo, selectInvitationsBy, selectInvitationsTo } from './store.ts'

/** Lists at most `atMost` invitations to any of a person's addresses, in the order of their ids, after `afterId`. */
export function listInvitationsTo(
  database: Queryable,
  person: { readonly userId: string; readonly emails: readonly string[] },
  afterId: string | null,
  atMost: number,
): Promise<NamedInvitation[]> {
  return selectInvitationsTo(database, person, afterId, atMost)
}

/** Lists the invitations that a person has sent as a member, in the same way. */
export function listInvitationsBy(
  database: Queryable,
  userId: string,
  afterId: string | null,
  atMost: number,
): Promise<NamedInvitation[]> {
  return selectInvitationsBy(database, userId, afterId, atMost)
}

/** Removes the invitations to these addresses, whatever their state; returns their ids. Their links are removed before. */
export function removeInvitationsTo(tx: Transaction, emails: readonly string[]): Promise<string[]> {
  return deleteInvitationsTo(tx, emails)
}
