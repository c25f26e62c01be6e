/** The queries on how instances are reached. */

import { arrayLiteral, type Queryable, type Transaction } from '../../infra/postgres/database.ts'
import { toHex } from '../../lib/ids.ts'

/** How an instance is reached. */
export interface InstanceAccess {
  readonly organizationId: string
  readonly isRunning: boolean
  /** Null: no password was made yet, or it has ended with the instance. */
  readonly passwordHash: Uint8Array | null
  readonly appTarget: string | null
  readonly terminalTarget: string | null
}

interface AccessRow {
  readonly organization_id: string
  readonly state: string
  readonly app_password_hash: Uint8Array | null
  readonly app_target: string | null
  readonly terminal_target: string | null
}

/** Returns how an instance is reached, whoever has it. Null: there is none. */
export async function findAccess(db: Queryable, id: string): Promise<InstanceAccess | null> {
  const [row] = await db.query<AccessRow>(
    `select organization_id, state, app_target, terminal_target,
       case when state in ('creating', 'running', 'terminating') then app_password_hash end as app_password_hash
     from instances where id = $1::uuid`,
    [id],
  )
  if (row === undefined) return null
  return {
    organizationId: row.organization_id,
    isRunning: row.state === 'running',
    passwordHash: row.app_password_hash,
    appTarget: row.app_target,
    terminalTarget: row.terminal_target,
  }
}

/** The hashes of the passwords of those instances that run, by id. */
export async function listHashes(db: Queryable, ids: readonly string[]): Promise<Map<string, Uint8Array>> {
  const rows = await db.query<{ id: string; app_password_hash: Uint8Array }>(
    `select id, app_password_hash from instances
     where id = any($1::text::uuid[]) and state = 'running' and app_password_hash is not null`,
    [arrayLiteral(ids)],
  )
  return new Map(rows.map((row) => [row.id, row.app_password_hash]))
}

export interface PasswordRow {
  readonly app_url: string | null
  readonly terminal_url: string | null
}

/** Sets the password of an organization's instance that is live. Null: there is none such. */
export async function writeAppPasswordHash(
  tx: Transaction,
  organizationId: string,
  id: string,
  hash: Uint8Array,
): Promise<PasswordRow | null> {
  const rows = await tx.query<PasswordRow>(
    `update instances set app_password_hash = decode($3, 'hex')
     where id = $1::uuid and organization_id = $2::uuid and state in ('creating', 'running')
     returning app_url, terminal_url`,
    [id, organizationId, toHex(hash)],
  )
  return rows[0] ?? null
}
