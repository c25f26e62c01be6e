import type { Queryable } from '../../../infra/postgres/database.ts'
import type { FoundInvitation, Invitation } from './invitation.ts'
import { selectInvitation, selectInvitations } from './store.ts'

/** Lists at most `atMost` invitations of an organization, before the id `beforeId`, the newest first. */
export function listInvitations(
  database: Queryable,
  organizationId: string,
  beforeId: string | null,
  atMost: number,
): Promise<Invitation[]> {
  return selectInvitations(database, organizationId, beforeId, atMost)
}

/** An invitation with the name of its organization and the person who invites; null where there is none of this id. */
export function findInvitation(database: Queryable, id: string): Promise<FoundInvitation | null> {
  return selectInvitation(database, id)
}
