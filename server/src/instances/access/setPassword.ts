import type { Transaction } from '../../infra/postgres/database.ts'
import type { InstanceDependencies } from '../job/dependencies.ts'
import type { Instance } from '../job/instance.ts'
import { APP_USER } from './address.ts'
import { hashOfPassword, newAppPassword } from './password.ts'
import { takePasswordAttempt, writeAppPasswordHash } from './store.ts'

/** A password, as its owner is shown it once. */
export interface AppPassword {
  readonly user: string
  readonly password: string
  /** Null: the app does not answer yet, or has none. */
  readonly appUrl: string | null
  readonly terminalUrl: string | null
}

/** Deletes the kept answer of an attempt (D3). */
export type ForgetAnswer = (tx: Transaction, attempt: string) => Promise<void>

/** Which instance gets a password, and the attempt that keeps the answer which shows it; null: the answer is not kept. */
export interface NewAppPassword extends Pick<Instance, 'id' | 'organizationId'> {
  readonly attempt: string | null
}

/**
 * Makes a new password for an organization's instance, in place of the one before, whose kept answer is forgotten; `keep` joins the
 * transaction. Null: there is no such instance that is live.
 */
export async function setAppPassword(
  { database, random, forgetAnswer }: Pick<InstanceDependencies, 'database' | 'random' | 'forgetAnswer'>,
  { id, organizationId, attempt }: NewAppPassword,
  keep: (tx: Transaction, made: AppPassword) => Promise<void>,
): Promise<AppPassword | null> {
  const password = newAppPassword(random)
  const hash = hashOfPassword(password)
  return database.transaction(async (tx) => {
    const written = await writeAppPasswordHash(tx, organizationId, id, { hash, attempt })
    if (written === null) return null
    if (written.earlier_attempt !== null) await forgetAnswer(tx, written.earlier_attempt)
    const made = { user: APP_USER, password, appUrl: written.app_url, terminalUrl: written.terminal_url }
    await keep(tx, made)
    return made
  })
}

/** Forgets the kept answer that shows the password of an instance which ends; its row is locked. */
export async function forgetAppPassword(
  tx: Transaction,
  { forgetAnswer }: { readonly forgetAnswer: ForgetAnswer },
  { id }: Pick<Instance, 'id'>,
): Promise<void> {
  const attempt = await takePasswordAttempt(tx, id)
  if (attempt !== null) await forgetAnswer(tx, attempt)
}
