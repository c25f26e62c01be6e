/** How strangers register, where the settings allow it: their address is confirmed first, and they get a new organization. */

import type { Database } from '../../../infra/postgres/database.ts'
import { Refused, refusal } from '../../../lib/errors.ts'
import { type RandomBytes, uuidV7 } from '../../../lib/ids.ts'
import { ok, type Result, refused } from '../../../lib/result.ts'
import type { Clock } from '../../../lib/time.ts'
import { inTransaction } from '../../audit/inTransaction.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import { parseOrganizationName } from '../../organizations/organization.ts'
import { type OpenAccount, registerOrganization } from '../../organizations/register.ts'
import { NO_LINK, readLink, takeLink } from '../links/link.ts'
import { enqueueLinkMail } from '../links/mailJob.ts'
import { addMember } from '../members/add.ts'
import { addPerson } from '../people/add.ts'
import { isAnybodyThere } from '../people/find.ts'
import { checkPerson, type Person, parseEmail } from '../people/person.ts'
import type { Passwords } from '../secrets/betterAuth.ts'

/** Mails to strangers take turns of their own: many of them keep no organization waiting. */
const STRANGERS = '00000000-0000-4000-8000-000000000000'

export interface RegistrationDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly passwords: Pick<Passwords, 'hash'>
  readonly openAccount: OpenAccount
}

/** The set-up link works until somebody has an account: no stranger is to be the first. */
const NOT_SET_UP = refusal(
  'validation_failed',
  'This server is not set up yet. Its operator must first make an account, with the link that the start of the server shows; "./tollgate users set-up-link" makes one too.',
)

/** Mails a link to an address. Refused (`validation_failed`) until the first person has an account. Somebody who has an account gets another mail; nobody else is told which. */
export async function requestRegistration(
  { database, clock }: Pick<RegistrationDependencies, 'database' | 'clock'>,
  text: string,
  /** Counts a mail to the address; not null: too many were sent to it, so that none is sent now. */
  waitToSend: (email: string) => Promise<number | null>,
): Promise<Result<null>> {
  const email = parseEmail(text)
  if (!email.ok) return email
  if (!(await isAnybodyThere(database))) return refused(NOT_SET_UP)
  if ((await waitToSend(email.value)) !== null) return ok(null)
  await database.transaction((tx) =>
    enqueueLinkMail(tx, STRANGERS, { purpose: 'registration', email: email.value }, clock.now()),
  )
  return ok(null)
}

/** Returns the address that a link confirms; null where it does not work. */
export async function readRegistration(
  { database, clock }: Pick<RegistrationDependencies, 'database' | 'clock'>,
  secret: string,
): Promise<string | null> {
  return (await readLink(database, clock, secret, 'registration'))?.email ?? null
}

/**
 * Makes the account of a link's address, and a new organization that it owns. Refused where the link does not work, or somebody
 * has an account with the address meanwhile (`not_found`), a value can't be used, or the first person has no account yet
 * (`validation_failed`).
 */
export async function register(
  dependencies: RegistrationDependencies,
  secret: string,
  wanted: { readonly name: string; readonly organization: string; readonly password: string },
  address: string,
): Promise<Result<Person>> {
  const { database, clock, random, passwords, openAccount } = dependencies
  const email = await readRegistration(dependencies, secret)
  if (email === null) return refused(NO_LINK)
  const checked = checkPerson({ name: wanted.name, password: wanted.password, email })
  if (!checked.ok) return checked
  const organization = parseOrganizationName(wanted.organization)
  if (!organization.ok) return refused({ ...organization.refusal, param: 'organization' })
  const hash = await passwords.hash(wanted.password, address)
  const nowMs = clock.now()
  const [userId, organizationId, memberId] = [1, 2, 3].map(() => uuidV7(nowMs, random)) as [string, string, string]
  const person: Person = { ...checked.value, id: userId, isOperator: false }
  return inTransaction(database, null, async (tx) => {
    if (!(await isAnybodyThere(tx))) throw new Refused(NOT_SET_UP)
    if ((await takeLink(tx, clock, secret, 'registration')) === null) throw new Refused(NO_LINK)
    if (!(await addPerson(tx, person, hash, nowMs))) throw new Refused(NO_LINK)
    await registerOrganization(tx, openAccount, { id: organizationId, name: organization.value, createdAtMs: nowMs })
    await addMember(tx, { id: memberId, organizationId, userId, role: 'owner' }, nowMs)
    await recordAuditEntry(tx, random, nowMs, {
      organizationId,
      actor: { kind: 'user', id: userId, address },
      action: 'organization.registered',
      subjectId: organizationId,
      before: null,
      after: { name: organization.value },
    })
    return person
  })
}
