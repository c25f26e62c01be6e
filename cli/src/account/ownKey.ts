import type { Secret } from '../../../server/src/lib/secret.ts'
import { askWithKey } from '../api.ts'
import type { System } from '../system.ts'

const OWN_KEY = '/manage/v1/key'

/** The server's answer to a key that asks about itself. */
export interface OwnKey {
  readonly id: string
  readonly name: string | null
  readonly admin: boolean
  readonly expires_at: string | null
  /** By resource: `none`, `read` or `write`. */
  readonly levels: Readonly<Record<string, string>>
  readonly organization: { readonly id: string; readonly name: string }
  /** Null: the key belongs to the organization. */
  readonly person: { readonly name: string; readonly email: string; readonly role: string } | null
}

/** Asks the server for the key that it is asked with. */
export async function readOwnKey(system: System, url: string, key: Secret): Promise<OwnKey> {
  return (await askWithKey(system, url, key, { method: 'GET', path: OWN_KEY })) as OwnKey
}

/** Has the server revoke the key that it is asked with. */
export async function revokeOwnKey(system: System, url: string, key: Secret): Promise<void> {
  await askWithKey(system, url, key, { method: 'DELETE', path: OWN_KEY })
}
