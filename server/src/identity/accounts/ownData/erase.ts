/** The end of a person: everything that belongs to the person alone is removed, and what stays names nobody. One transaction. */

import type { Database, Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { dropJobsOf } from '../../../jobs/drop.ts'
import { dropMailsTo } from '../../../jobs/mail.ts'
import { Refused, refusal } from '../../../lib/errors.ts'
import type { RandomBytes } from '../../../lib/ids.ts'
import type { Result } from '../../../lib/result.ts'
import type { Clock } from '../../../lib/time.ts'
import type { Actor } from '../../audit/entry.ts'
import { inTransaction } from '../../audit/inTransaction.ts'
import { findFormerAddresses, redactChanges } from '../../audit/ofPerson.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import { forgetKeyNames } from '../../keys/ofPerson.ts'
import { forgetNotifyAddresses, lockOrganizationsOf } from '../../organizations/forgetAddress.ts'
import { removeOwnLogins } from '../device/ofPerson.ts'
import { removeIdentities } from '../identityProviders/link.ts'
import { endInvitationsOf } from '../invitations/invite.ts'
import { removeInvitationsTo } from '../invitations/ofPerson.ts'
import { endLinksOf } from '../links/link.ts'
import { dropLinkMails } from '../links/mailJob.ts'
import type { MemberDependencies } from '../members/change.ts'
import { areAllMemberships, endMemberships, type LockedMembership, lockMembershipsOf } from '../members/ofPerson.ts'
import { removePasskeys } from '../passkeys/own.ts'
import { lockPersonToErase, removePassword, removePerson } from '../people/erase.ts'
import { findPersonById } from '../people/find.ts'
import type { Person } from '../people/person.ts'

export interface EraseDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  /** Enqueues the last mail to the person's address. */
  readonly tellErased: (tx: Transaction, email: string, atMs: number) => Promise<void>
}

/** The person to erase, and who asks for it. */
export interface Erasure {
  readonly userId: string
  /** The hash of the password that the person has typed; null: there was none to type. */
  readonly provenHash: string | null
  /** Without an address: the log is to name nobody. */
  readonly actor: Actor
}

/** The numbers of things that have ended with a person. */
export interface ErasedPerson {
  readonly id: string
  readonly memberships: number
  /** API keys that were revoked. */
  readonly keys: number
}

const GONE = refusal('not_found', 'There is no such account: it was erased already.')
const CHANGED = refusal(
  'validation_failed',
  'The account was changed at this moment, so nothing was erased. Look at it, then try again.',
)
const LAST_OPERATOR = refusal(
  'validation_failed',
  'This account is the last operator of this server. Make somebody else one with "./tollgate operators add EMAIL", then try again.',
)

/** The mail addresses that are a person's: the present one, and those before it that nobody else has. */
export async function addressesOf(database: Queryable, { id, email }: Pick<Person, 'id' | 'email'>): Promise<string[]> {
  return [email, ...(await findFormerAddresses(database, id))]
}

/**
 * Erases a person. In every process the person's sessions end, and the keys of all memberships. Refused (`validation_failed`) where
 * the person is the last owner of an organization or the last operator, or the password was changed since it was typed; `not_found`
 * where the person is gone.
 *
 * Locks are taken in the order of other changes: password, organizations, links, invitations, passkeys, members, the person, keys. The
 * log, which may be long, is rewritten before them, and what was added meanwhile behind them.
 */
export function erasePerson(
  { database, clock, random, tellErased }: EraseDependencies,
  { userId, provenHash, actor }: Erasure,
): Promise<Result<ErasedPerson>> {
  return inTransaction(database, null, async (tx) => {
    const begunMs = clock.now()
    const before = await findPersonById(tx, userId)
    if (before === null) throw new Refused(GONE)
    const addresses = await addressesOf(tx, before)
    await redactChanges(tx, { userId, addresses }, null)
    const isRemoved = await removePassword(tx, userId, provenHash)
    if (!isRemoved && provenHash !== null) throw new Refused(CHANGED)
    await lockOrganizationsOf(tx, userId, addresses)
    const invitationIds = await removeWaysIn(tx, userId, addresses)
    const memberships = await lockPersonAndMemberships(tx, before)
    const endInvitations: MemberDependencies['endInvitations'] = (within, atMs, member) =>
      endInvitationsOf(within, random, atMs, member)
    const ended = await endMemberships(tx, { clock, random, endInvitations }, memberships, actor)
    const nowMs = clock.now()
    await removeOwnLogins(tx, userId)
    await forgetKeyNames(tx, userId)
    await forgetNotifyAddresses(tx, random, nowMs, { addresses, actor })
    await dropJobsOf(tx, userId)
    await dropMailsTo(tx, addresses)
    await dropLinkMails(tx, { userId, addresses, invitationIds })
    const entry = { organizationId: null, actor, action: 'person.erased', subjectId: userId }
    await recordAuditEntry(tx, random, nowMs, { ...entry, before: null, after: null })
    await redactChanges(tx, { userId, addresses }, begunMs)
    await removePerson(tx, userId)
    await tellErased(tx, before.email, nowMs)
    return { id: userId, ...ended }
  })
}

/** Locks a person with all memberships; returns these. Throws {@link Refused} where the person has changed, or is the last operator. */
async function lockPersonAndMemberships(tx: Transaction, before: Person): Promise<LockedMembership[]> {
  const { id } = before
  const memberships = await lockMembershipsOf(tx, id)
  const locked = await lockPersonToErase(tx, id)
  if (locked === null) throw new Refused(GONE)
  const { person, hasOtherOperators } = locked
  if (person.email !== before.email || !(await areAllMemberships(tx, id, memberships))) throw new Refused(CHANGED)
  if (person.isOperator && !hasOtherOperators) throw new Refused(LAST_OPERATOR)
  return memberships
}

/** Removes the links, invitations, passkeys and identities of a person; returns the ids of the invitations. */
async function removeWaysIn(tx: Transaction, userId: string, addresses: readonly string[]): Promise<string[]> {
  await endLinksOf(tx, userId, addresses)
  const invitationIds = await removeInvitationsTo(tx, addresses)
  await removePasskeys(tx, userId)
  await removeIdentities(tx, userId)
  return invitationIds
}
