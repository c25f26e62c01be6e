import type { Transaction } from '../../infra/postgres/database.ts'
import type { InstanceDependencies } from '../job/dependencies.ts'
import type { Instance } from '../job/instance.ts'
import { APP_USER } from './address.ts'
import { hashOfPassword, newAppPassword } from './password.ts'
import { writeAppPasswordHash } from './store.ts'

/** A password, as its owner is shown it once. */
export interface AppPassword {
  readonly user: string
  readonly password: string
  /** Null: the app does not answer yet, or has none. */
  readonly appUrl: string | null
  readonly terminalUrl: string | null
}

/**
 * Makes a new password for an organization's instance, in place of the one before; `keep` joins the transaction. Null:
 * there is no such instance that is live.
 */
export async function setAppPassword(
  { database, random }: Pick<InstanceDependencies, 'database' | 'random'>,
  { id, organizationId }: Pick<Instance, 'id' | 'organizationId'>,
  keep: (tx: Transaction, made: AppPassword) => Promise<void>,
): Promise<AppPassword | null> {
  const password = newAppPassword(random)
  const hash = hashOfPassword(password)
  return database.transaction(async (tx) => {
    const written = await writeAppPasswordHash(tx, organizationId, id, hash)
    if (written === null) return null
    const made = { user: APP_USER, password, appUrl: written.app_url, terminalUrl: written.terminal_url }
    await keep(tx, made)
    return made
  }, organizationId)
}
