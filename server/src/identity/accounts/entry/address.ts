/** A person's new mail address: the link goes to the new one, and the person confirms it while signed in. */

import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import { Refused, refusal } from '../../../lib/errors.ts'
import type { RandomBytes } from '../../../lib/ids.ts'
import { ok, type Result, refused } from '../../../lib/result.ts'
import type { Clock } from '../../../lib/time.ts'
import { inTransaction } from '../../audit/inTransaction.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import { endLinks, NO_LINK, readLink, takeLink } from '../links/link.ts'
import { enqueueLinkMail } from '../links/mailJob.ts'
import { replaceEmail } from '../people/add.ts'
import { findPasswordHash, passwordSetAtMs } from '../people/find.ts'
import { type Person, parseEmail } from '../people/person.ts'
import type { Passwords } from '../secrets/betterAuth.ts'
import { endSessions } from '../sessions/own.ts'

export interface AddressDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly passwords: Pick<Passwords, 'verify'>
  /** Enqueues the mails that tell both addresses of the change. */
  readonly tellAddressChanged: (tx: Transaction, person: Person, email: string) => Promise<void>
}

const WRONG = refusal('validation_failed', 'Your current password is wrong. Type it again.', { param: 'password' })
const SAME = refusal('validation_failed', 'This is your address already.', { param: 'email' })
const TAKEN = refusal('validation_failed', "This address can't be yours: somebody has an account with it.", {
  param: 'email',
})

/**
 * Asks for a link to the new address. Refused (`validation_failed`) when the password is wrong or the text is no address. Whether
 * somebody has the address makes no difference here: then no mail is sent.
 */
export async function requestAddress(
  { database, clock, passwords }: AddressDependencies,
  { person, address }: { readonly person: Person; readonly address: string },
  text: string,
  password: string,
  /** Counts a mail to the address; not null: too many were sent to it, so that none is sent now. */
  waitToSend: (email: string) => Promise<number | null>,
): Promise<Result<string>> {
  const email = parseEmail(text)
  if (!email.ok) return email
  if (email.value === person.email) return refused(SAME)
  const hash = await findPasswordHash(database, person.id)
  if (hash === null || !(await passwords.verify(hash, password, address))) return refused(WRONG)
  if ((await waitToSend(email.value)) !== null) return ok(email.value)
  await database.transaction(async (tx) => {
    const setAtMs = await passwordSetAtMs(tx, person.id)
    const payload = { purpose: 'address', userId: person.id, email: email.value, passwordSetAtMs: setAtMs } as const
    await enqueueLinkMail(tx, person.id, payload, clock.now())
  })
  return ok(email.value)
}

/** Returns the address that a link confirms; null where it does not work, or is another person's. */
export async function readAddress(
  { database, clock }: Pick<AddressDependencies, 'database' | 'clock'>,
  secret: string,
  person: Person,
): Promise<string | null> {
  const link = await readLink(database, clock, secret, 'address')
  return link?.user_id === person.id ? link.email : null
}

/**
 * Makes the address of a link the person's. The person's other sessions and all links end, and both addresses are told. Refused
 * where the link does not work or is another person's (`not_found`), or somebody has the address meanwhile.
 */
export async function confirmAddress(
  { database, clock, random, tellAddressChanged }: AddressDependencies,
  secret: string,
  { person, sessionId, address }: { readonly person: Person; readonly sessionId: string; readonly address: string },
): Promise<Result<string>> {
  const { id } = person
  return inTransaction(database, null, async (tx) => {
    // Locks the password before the link, as changes of the password do.
    await passwordSetAtMs(tx, id)
    const link = await takeLink(tx, clock, secret, 'address')
    if (link === null || link.user_id !== id || link.email === null) throw new Refused(NO_LINK)
    const { email } = link
    const nowMs = clock.now()
    if (!(await replaceEmail(tx, id, person.email, email, nowMs))) throw new Refused(TAKEN)
    await endSessions(tx, id, sessionId)
    await endLinks(tx, id)
    await recordAuditEntry(tx, random, nowMs, {
      organizationId: null,
      actor: { kind: 'user', id, address },
      action: 'address.changed',
      subjectId: id,
      before: { email: person.email },
      after: { email },
    })
    await tellAddressChanged(tx, person, email)
    return email
  })
}
