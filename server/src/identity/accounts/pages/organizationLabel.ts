import type { Membership } from '../sessions/session.ts'

/** A membership, as far as pages tell organizations apart. */
export type NamedMembership = Pick<Membership, 'organizationId' | 'organizationName' | 'role'>

/** How much of an id is shown: its last characters are random. */
const ID_CHARACTERS = 8

/**
 * Returns how pages call an organization: by its name, in quotes. Where another one of the person's has the same name, with the person's
 * role and the last characters of its id. `withRole`: the role stands behind any name.
 */
export function labelOf(
  { organizationId, organizationName, role }: NamedMembership,
  memberships: readonly NamedMembership[],
  withRole = false,
): string {
  const isRepeated = memberships.some(
    (each) => each.organizationName === organizationName && each.organizationId !== organizationId,
  )
  if (isRepeated) return `“${organizationName}” (${role}, id …${organizationId.slice(-ID_CHARACTERS)})`
  return withRole ? `“${organizationName}” as ${role}` : `“${organizationName}”`
}
