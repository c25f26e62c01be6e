import type { Database, Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { type Refusal, Refused, refusal } from '../../../lib/errors.ts'
import { type RandomBytes, uuidV7 } from '../../../lib/ids.ts'
import { type Result, refused } from '../../../lib/result.ts'
import type { Clock } from '../../../lib/time.ts'
import { inTransaction } from '../../audit/inTransaction.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Person } from '../people/person.ts'
import type { Identity, IdentityProvider, LinkedIdentity, StoredIdentity } from './identity.ts'
import { deleteIdentities, deleteIdentity, insertIdentity, selectIdentities, selectStoredIdentities } from './store.ts'

export interface IdentityLinkDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  /** Enqueues the mail that tells a person of a change to the ways in which they sign in. */
  readonly tellOfChange: (tx: Transaction, person: Person, change: string) => Promise<void>
}

/** The person who changes something of their own, and from where. */
interface Owner {
  readonly person: Person
  readonly address: string
}

type Named = Pick<IdentityProvider, 'name' | 'issuer'>

function notVerified(name: string, email: string): Refusal {
  const message = `${name} has not confirmed that ${email} belongs to this account. Verify it there, or use an account that has it.`
  return refusal('validation_failed', message)
}

function linkedAlready(name: string): Refusal {
  const message = `You have linked an account at ${name} already, or somebody has linked this one. Unlink that first.`
  return refusal('validation_failed', message)
}

function notLinked(name: string): Refusal {
  return refusal('validation_failed', `You have linked no account at ${name}.`)
}

/**
 * Links an identity to the person of a session, and tells the person. Refused (`validation_failed`) when the provider has not
 * verified the person's address, or one of the two is linked already.
 */
export async function linkIdentity(
  { database, clock, random, tellOfChange }: IdentityLinkDependencies,
  owner: Owner,
  provider: Named,
  identity: Identity,
): Promise<Result<void>> {
  const { person } = owner
  if (!identity.verifiedEmails.includes(person.email)) return refused(notVerified(provider.name, person.email))
  const nowMs = clock.now()
  const id = uuidV7(nowMs, random)
  return inTransaction(database, null, async (tx) => {
    const isNew = await insertIdentity(tx, { ...identity, id, userId: person.id }, nowMs)
    if (!isNew) throw new Refused(linkedAlready(provider.name))
    const after = { issuer: provider.issuer }
    await recordAuditEntry(tx, random, nowMs, { ...entryOf(owner, id), action: 'identity.linked', before: null, after })
    await tellOfChange(tx, person, `Sign-in by ${provider.name} was linked to your account`)
  })
}

/** Unlinks the person's identity at a provider, and tells the person. */
export function unlinkIdentity(
  { database, clock, random, tellOfChange }: IdentityLinkDependencies,
  owner: Owner,
  provider: Named,
): Promise<Result<void>> {
  return inTransaction(database, null, async (tx) => {
    const id = await deleteIdentity(tx, owner.person.id, provider.issuer)
    if (id === null) throw new Refused(notLinked(provider.name))
    const before = { issuer: provider.issuer }
    const change = { ...entryOf(owner, id), action: 'identity.unlinked', before, after: null }
    await recordAuditEntry(tx, random, clock.now(), change)
    await tellOfChange(tx, owner.person, `Sign-in by ${provider.name} was unlinked from your account`)
  })
}

/** Lists a person's identities at these providers. */
export function listIdentities(
  database: Queryable,
  userId: string,
  providers: readonly Named[],
): Promise<LinkedIdentity[]> {
  const issuers = providers.map(({ issuer }) => issuer)
  return selectIdentities(database, userId, issuers)
}

/**
 * Lists at most `atMost` identities of a person, in the order of their ids, after `afterId`; those of providers that the settings
 * name no more too.
 */
export function listStoredIdentities(
  database: Queryable,
  userId: string,
  afterId: string | null,
  atMost: number,
): Promise<StoredIdentity[]> {
  return selectStoredIdentities(database, userId, afterId, atMost)
}

/** Removes all identities of a person who is erased. */
export function removeIdentities(tx: Transaction, userId: string): Promise<void> {
  return deleteIdentities(tx, userId)
}

function entryOf({ person, address }: Owner, subjectId: string) {
  return { organizationId: null, actor: { kind: 'user', id: person.id, address }, subjectId } as const
}
