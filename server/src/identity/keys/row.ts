import type { ApiKey, ListedKey } from './key.ts'

/** A key as a row of `api_keys`, and the columns that the statements of `store.ts` ask for. */

export interface ApiKeyRow {
  readonly id: string
  readonly organization_id: string
  readonly member_id: string | null
  readonly name: string | null
  readonly scopes: string
  readonly admin: boolean
  readonly created_at: Date
  readonly expires_at: Date | null
  readonly revoked_at: Date | null
}

export const KEY_COLUMNS = 'id, organization_id, member_id, name, scopes, admin, created_at, expires_at, revoked_at'

/** The same of `api_keys k`. A member's key has an admin's rights only while the member has them. */
export const CURRENT_KEY_COLUMNS = `id, organization_id, member_id, name, scopes, created_at, expires_at, revoked_at,
  admin and (member_id is null or exists (
    select 1 from members m where m.id = k.member_id and m.removed_at is null and m.role in ('owner', 'admin')
  )) as admin`

/** The same, with the last use. */
export const LISTED_KEY_COLUMNS = `${CURRENT_KEY_COLUMNS}, (select used_at from key_uses u where u.key_id = k.id) as used_at`

export interface ListedKeyRow extends ApiKeyRow {
  readonly used_at: Date | null
}

export function listedKeyFromRow(row: ListedKeyRow): ListedKey {
  return { ...keyFromRow(row), lastUsedAtMs: row.used_at?.getTime() ?? null }
}

export function keyFromRow(row: ApiKeyRow): ApiKey {
  return {
    id: row.id,
    organizationId: row.organization_id,
    memberId: row.member_id,
    name: row.name,
    scopes: row.scopes,
    admin: row.admin,
    createdAtMs: row.created_at.getTime(),
    expiresAtMs: row.expires_at?.getTime() ?? null,
    revokedAtMs: row.revoked_at?.getTime() ?? null,
  }
}
