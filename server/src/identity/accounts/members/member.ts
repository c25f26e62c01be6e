import type { Role } from '../../../http/principal.ts'

/** A person's place in an organization. */
export interface OrganizationMember {
  readonly id: string
  readonly organizationId: string
  readonly userId: string
  readonly name: string
  readonly email: string
  readonly role: Role
  /** Milliseconds since the epoch. */
  readonly createdAtMs: number
}

/** A membership in its person's own list, ended ones too. Instants are milliseconds since the epoch. */
export interface OwnMembership {
  readonly id: string
  readonly organizationId: string
  readonly organizationName: string
  readonly role: Role
  readonly createdAtMs: number
  /** Null: the person is a member. */
  readonly removedAtMs: number | null
}

/** Returns whether somebody with a role may give, take or remove a role. Only owners touch owners. */
export function mayManage(own: Role, role: Role): boolean {
  return own === 'owner' || (own === 'admin' && role !== 'owner')
}
