import type { Role } from '../../../http/principal.ts'
import type { Database, Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { Refused, refusal } from '../../../lib/errors.ts'
import { type RandomBytes, uuidV7 } from '../../../lib/ids.ts'
import { type Result, refused } from '../../../lib/result.ts'
import type { Clock } from '../../../lib/time.ts'
import { inTransaction } from '../../audit/inTransaction.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import { keepFromDeletion } from '../../organizations/remove.ts'
import { NO_LINK, readLink, takeLink } from '../links/link.ts'
import { addMember } from '../members/add.ts'
import { addPerson } from '../people/add.ts'
import { findPersonByEmail } from '../people/find.ts'
import { checkPerson, type Person } from '../people/person.ts'
import type { Passwords } from '../secrets/betterAuth.ts'
import { invitationStateAt } from './invitation.ts'
import { selectInvitation, updateAccepted } from './store.ts'

export interface AcceptDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly passwords: Pick<Passwords, 'hash'>
}

/** The page that the link of an invitation leads to. */
export interface OfferedMembership {
  readonly invitationId: string
  readonly organizationId: string
  readonly organizationName: string
  readonly email: string
  readonly role: Role
  /** True when somebody has an account with the address: only that person accepts. */
  readonly hasAccount: boolean
}

/** Returns what a link leads to; null when it does not work, or the invitation is not open. */
export async function readInvitation(
  { database, clock }: { readonly database: Queryable; readonly clock: Clock },
  secret: string,
): Promise<OfferedMembership | null> {
  const link = await readLink(database, clock, secret, 'invitation')
  const found = link?.invitation_id ? await selectInvitation(database, link.invitation_id) : null
  if (found === null || invitationStateAt(found.invitation, clock.now()) !== 'open') return null
  const { id: invitationId, organizationId, email, role } = found.invitation
  const hasAccount = (await findPersonByEmail(database, email)) !== null
  return { invitationId, organizationId, organizationName: found.organizationName, email, role, hasAccount }
}

const ANOTHER = refusal(
  'validation_failed',
  'This invitation is for another address. Sign in with the address that it was sent to.',
)

const MEMBER_ALREADY = refusal(
  'validation_failed',
  'You are a member of this organization already. Nothing was changed: the invitation stays open until it expires. Ask an admin of the organization if you need another role.',
)

/**
 * Accepts an invitation for a person who is signed in. Refused where the link does not work (`not_found`), is for another address, or the
 * person is a member already, with an address that is new to them (`validation_failed`).
 */
export async function acceptInvitation(
  dependencies: Omit<AcceptDependencies, 'passwords'>,
  secret: string,
  person: Person,
  address: string,
): Promise<Result<Person>> {
  const offered = await readInvitation(dependencies, secret)
  if (offered === null) return refused(NO_LINK)
  if (offered.email !== person.email) return refused(ANOTHER)
  return inTransaction(dependencies.database, offered.organizationId, async (tx) => {
    await join(tx, dependencies, { secret, offered, person, address })
    return person
  })
}

/** Accepts an invitation and makes the account of its address. Refused as {@link acceptInvitation}, or where a value can't be used. */
export async function acceptAsNewPerson(
  dependencies: AcceptDependencies,
  secret: string,
  wanted: { readonly name: string; readonly password: string },
  address: string,
): Promise<Result<Person>> {
  const { clock, random, passwords } = dependencies
  const offered = await readInvitation(dependencies, secret)
  if (offered === null) return refused(NO_LINK)
  const checked = checkPerson({ ...wanted, email: offered.email })
  if (!checked.ok) return checked
  const hash = await passwords.hash(wanted.password, address)
  const nowMs = clock.now()
  const person = { ...checked.value, id: uuidV7(nowMs, random), isOperator: false }
  return inTransaction(dependencies.database, offered.organizationId, async (tx) => {
    // A person who has made an account with the address meanwhile must sign in with it.
    if (!(await addPerson(tx, person, hash, nowMs))) throw new Refused(ANOTHER)
    await join(tx, dependencies, { secret, offered, person, address })
    return person
  })
}

interface Joining {
  readonly secret: string
  readonly offered: OfferedMembership
  readonly person: Person
  readonly address: string
}

async function join(
  tx: Transaction,
  { clock, random }: Omit<AcceptDependencies, 'passwords'>,
  { secret, offered, person, address }: Joining,
): Promise<void> {
  const nowMs = clock.now()
  const { invitationId, organizationId, role } = offered
  // Before the link, as a deletion of the organization does: in another order they could wait for each other.
  await keepFromDeletion(tx, organizationId)
  if ((await takeLink(tx, clock, secret, 'invitation')) === null) throw new Refused(NO_LINK)
  if (!(await updateAccepted(tx, invitationId, nowMs))) throw new Refused(NO_LINK)
  const memberId = uuidV7(nowMs, random)
  const isNew = await addMember(tx, { id: memberId, organizationId, userId: person.id, role }, nowMs)
  if (!isNew) throw new Refused(MEMBER_ALREADY)
  await recordAuditEntry(tx, random, nowMs, {
    organizationId,
    actor: { kind: 'user', id: person.id, address },
    action: 'member.added',
    subjectId: memberId,
    before: null,
    after: { role },
  })
}
