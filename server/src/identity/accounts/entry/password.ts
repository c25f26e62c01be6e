import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import { Refused, refusal } from '../../../lib/errors.ts'
import type { RandomBytes } from '../../../lib/ids.ts'
import { type Result, refused } from '../../../lib/result.ts'
import type { Clock } from '../../../lib/time.ts'
import { inTransaction } from '../../audit/inTransaction.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import { endLinks, NO_LINK, readLink, takeLink } from '../links/link.ts'
import { replacePasswordHash, setPasswordHash } from '../people/add.ts'
import { findPasswordHash, findPersonById } from '../people/find.ts'
import type { Person } from '../people/person.ts'
import type { Passwords } from '../secrets/betterAuth.ts'
import { parsePassword } from '../secrets/password.ts'
import { endSessions } from '../sessions/own.ts'

export interface PasswordDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly passwords: Pick<Passwords, 'hash' | 'verify'>
  /** Enqueues the mail that tells a person of a changed password. */
  readonly tellPasswordChanged: (tx: Transaction, person: Person) => Promise<void>
}

const WRONG = refusal('validation_failed', 'Your current password is wrong. Type it again.', {
  param: 'password',
})

/**
 * Changes the password of a person who is signed in, and ends the person's other sessions. Refused (`validation_failed`) when
 * the old one is wrong, also because it was set by a link meanwhile, or the new one can't be used. Links to set one end.
 */
export async function changePassword(
  dependencies: PasswordDependencies,
  { person, sessionId, address }: { readonly person: Person; readonly sessionId: string; readonly address: string },
  password: string,
  newPassword: string,
): Promise<Result<Person>> {
  const { database, clock, passwords } = dependencies
  const checked = parsePassword(newPassword, person)
  if (!checked.ok) return refused({ ...checked.refusal, param: 'new_password' })
  const before = await findPasswordHash(database, person.id)
  if (before === null || !(await passwords.verify(before, password, address))) return refused(WRONG)
  const hash = await passwords.hash(newPassword, address)
  const nowMs = clock.now()
  return inTransaction(database, null, async (tx) => {
    // A link has set another one meanwhile: it counts, and the person of the old password is signed out.
    if (!(await replacePasswordHash(tx, person.id, before, hash, nowMs))) throw new Refused(WRONG)
    await endSessions(tx, person.id, sessionId)
    await finishChange(dependencies, tx, person, nowMs, address)
    return person
  })
}

/** Returns the person whose password a link sets; null when it does not work. */
export async function readReset(
  { database, clock }: Pick<PasswordDependencies, 'database' | 'clock'>,
  secret: string,
): Promise<Person | null> {
  const link = await readLink(database, clock, secret, 'reset')
  return link?.user_id ? findPersonById(database, link.user_id) : null
}

/**
 * Sets a new password by the link of a mail, and ends all sessions of the person. Refused when the link does not work
 * (`not_found`) or the password can't be used (`validation_failed`).
 */
export async function resetPassword(
  dependencies: PasswordDependencies,
  secret: string,
  newPassword: string,
  address: string,
): Promise<Result<Person>> {
  const { database, clock, passwords } = dependencies
  const person = await readReset(dependencies, secret)
  if (person === null) return refused(NO_LINK)
  const checked = parsePassword(newPassword, person)
  if (!checked.ok) return checked
  const hash = await passwords.hash(newPassword, address)
  const nowMs = clock.now()
  return inTransaction(database, null, async (tx) => {
    // The password first, then the link: a change that runs at the same time locks them in this order.
    await setPasswordHash(tx, person.id, hash, nowMs)
    if ((await takeLink(tx, clock, secret, 'reset')) === null) throw new Refused(NO_LINK)
    await endSessions(tx, person.id, null)
    await finishChange(dependencies, tx, person, nowMs, address)
    return person
  })
}

/** The rest of any change: no link to set another password is left, the audit log has it, and the person is told. */
async function finishChange(
  { random, tellPasswordChanged }: PasswordDependencies,
  tx: Transaction,
  person: Person,
  nowMs: number,
  address: string,
): Promise<void> {
  await endLinks(tx, person.id)
  await recordAuditEntry(tx, random, nowMs, passwordChanged(person.id, address))
  await tellPasswordChanged(tx, person)
}

function passwordChanged(userId: string, address: string) {
  const actor = { kind: 'user', id: userId, address } as const
  return { organizationId: null, actor, action: 'password.changed', subjectId: userId, before: null, after: null }
}
