import type { Database, Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { Refused, refusal } from '../../../lib/errors.ts'
import { isUuid, type RandomBytes } from '../../../lib/ids.ts'
import { type Result, refused } from '../../../lib/result.ts'
import type { Clock } from '../../../lib/time.ts'
import { inTransaction } from '../../audit/inTransaction.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Person } from '../people/person.ts'
import { PASSKEYS_MOST, type Passkey, parsePasskeyName } from './passkey.ts'
import { deletePasskey, deletePasskeys, selectPasskeys, updatePasskeyName } from './store.ts'

const NO_PASSKEY = refusal('validation_failed', 'You have no such passkey. It may have been removed already.')

export interface PasskeyChangeDependencies {
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

/** Lists a person's passkeys, the oldest first. */
export function listPasskeys(database: Queryable, userId: string): Promise<Passkey[]> {
  return selectPasskeys(database, userId, PASSKEYS_MOST)
}

/** Gives a passkey of the person another name. `id` may be any text. */
export async function renamePasskey(
  { database, clock, random }: PasskeyChangeDependencies,
  owner: Owner,
  id: string,
  text: string,
): Promise<Result<void>> {
  const name = parsePasskeyName(text)
  if (!name.ok) return name
  if (!isUuid(id)) return refused(NO_PASSKEY)
  return inTransaction(database, null, async (tx) => {
    const before = await updatePasskeyName(tx, owner.person.id, id, name.value)
    if (before === null) throw new Refused(NO_PASSKEY)
    if (before === name.value) return
    await recordAuditEntry(tx, random, clock.now(), {
      ...entryOf(owner, id),
      action: 'passkey.renamed',
      before: { name: before },
      after: { name: name.value },
    })
  })
}

/** Removes a passkey of the person, and tells the person. `id` may be any text. */
export async function removePasskey(
  { database, clock, random, tellOfChange }: PasskeyChangeDependencies,
  owner: Owner,
  id: string,
): Promise<Result<void>> {
  if (!isUuid(id)) return refused(NO_PASSKEY)
  return inTransaction(database, null, async (tx) => {
    const name = await deletePasskey(tx, owner.person.id, id)
    if (name === null) throw new Refused(NO_PASSKEY)
    const change = { ...entryOf(owner, id), action: 'passkey.removed', before: { name }, after: null }
    await recordAuditEntry(tx, random, clock.now(), change)
    await tellOfChange(tx, owner.person, `The passkey “${name}” was removed`)
  })
}

/** Removes all passkeys of a person who is erased. */
export function removePasskeys(tx: Transaction, userId: string): Promise<void> {
  return deletePasskeys(tx, userId)
}

function entryOf({ person, address }: Owner, subjectId: string) {
  return { organizationId: null, actor: { kind: 'user', id: person.id, address }, subjectId } as const
}
