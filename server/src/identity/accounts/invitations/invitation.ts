import type { Role } from '../../../http/principal.ts'

/** `expired` follows from the instant; the others are final. */
export type InvitationState = 'open' | 'accepted' | 'withdrawn' | 'expired'

/** An address that is asked to become a member. Instants are milliseconds since the epoch; null is never. */
export interface Invitation {
  readonly id: string
  readonly organizationId: string
  readonly email: string
  readonly role: Role
  readonly createdAtMs: number
  readonly expiresAtMs: number
  readonly acceptedAtMs: number | null
  readonly withdrawnAtMs: number | null
}

/** An invitation as its mail tells of it. */
export interface FoundInvitation {
  readonly invitation: Invitation
  readonly organizationName: string
  /** The person who invites; null: a key of the organization, or somebody who has no account any more. */
  readonly inviter: { readonly name: string; readonly email: string } | null
}

/** An invitation in the list of the person whom it was sent to, or by whom. */
export interface NamedInvitation extends Invitation {
  readonly organizationName: string
}

export function invitationStateAt(
  { acceptedAtMs, withdrawnAtMs, expiresAtMs }: Invitation,
  nowMs: number,
): InvitationState {
  if (acceptedAtMs !== null) return 'accepted'
  if (withdrawnAtMs !== null) return 'withdrawn'
  return expiresAtMs <= nowMs ? 'expired' : 'open'
}
