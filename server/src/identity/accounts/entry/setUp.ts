import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import { type Refusal, Refused, refusal } from '../../../lib/errors.ts'
import { type RandomBytes, uuidV7 } from '../../../lib/ids.ts'
import { readMailAddress } from '../../../lib/mailAddress.ts'
import { ok, type Result, refused } from '../../../lib/result.ts'
import type { Secret } from '../../../lib/secret.ts'
import type { Clock } from '../../../lib/time.ts'
import { inTransaction } from '../../audit/inTransaction.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import { type CreateOrganizationDependencies, createOrganization } from '../../organizations/create.ts'
import { findOrganizationByName } from '../../organizations/find.ts'
import { FIRST_ORGANIZATION } from '../../organizations/oneFirstStart.ts'
import type { OpenAccount } from '../../organizations/register.ts'
import { keepFromDeletion } from '../../organizations/remove.ts'
import { makeLink, NO_LINK, readLink, takeLink } from '../links/link.ts'
import { addMember } from '../members/add.ts'
import { addPerson } from '../people/add.ts'
import { findPersonByEmail, isAnybodyThere } from '../people/find.ts'
import { checkPerson, type NewPerson, type Person } from '../people/person.ts'
import type { Passwords } from '../secrets/betterAuth.ts'

export interface SetUpDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly passwords: Pick<Passwords, 'hash'>
  readonly openAccount: OpenAccount
}

type LinkDependencies = Omit<SetUpDependencies, 'passwords' | 'openAccount'>

/** Makes the secret of the link with which the first person sets an account up; null once somebody has one. */
export async function makeSetUpLink({ database, clock, random }: LinkDependencies): Promise<Secret | null> {
  if (await isAnybodyThere(database)) return null
  return database.transaction((tx) => makeLink(tx, { clock, random }, { purpose: 'set_up' }))
}

function noSuchPerson(email: string): Refusal {
  return refusal('not_found', `Nobody has an account with the address "${email}": check the address.`)
}

/** Makes the secret of a link to set a new password, for an operator to hand over. Refused (`not_found`) where nobody has the address. */
export async function makeResetLink(
  { database, clock, random }: LinkDependencies,
  email: string,
): Promise<Result<Secret>> {
  const person = await findPersonByEmail(database, readMailAddress(email) ?? '')
  if (person === null) return refused(noSuchPerson(email))
  const target = { purpose: 'reset', userId: person.id } as const
  return ok(await database.transaction((tx) => makeLink(tx, { clock, random }, target)))
}

/**
 * Makes the account of the first person, who owns the organization `default` and is an operator. Where that organization was deleted, it
 * is made anew, without credit. Refused where the link does not work (`not_found`), or a value can't be used (`validation_failed`).
 */
export async function setUpFirstPerson(
  { database, clock, random, passwords, openAccount }: SetUpDependencies,
  secret: string,
  wanted: NewPerson,
  address: string,
): Promise<Result<Person>> {
  if ((await readLink(database, clock, secret, 'set_up')) === null) return refused(NO_LINK)
  const checked = checkPerson(wanted)
  if (!checked.ok) return checked
  const passwordHash = await passwords.hash(wanted.password, address)
  const nowMs = clock.now()
  const person = { ...checked.value, id: uuidV7(nowMs, random), isOperator: true }
  const memberId = uuidV7(nowMs, random)
  return inTransaction(database, null, async (tx) => {
    // If two people open the link, only the first of them can use it.
    if ((await takeLink(tx, clock, secret, 'set_up')) === null) throw new Refused(NO_LINK)
    if (await isAnybodyThere(tx)) throw new Refused(NO_LINK)
    const organizationId = await firstOrganization(tx, { clock, randomBytes: random, openAccount })
    await addPerson(tx, person, passwordHash, nowMs)
    await addMember(tx, { id: memberId, organizationId, userId: person.id, role: 'owner' }, nowMs)
    await recordAuditEntry(tx, random, nowMs, {
      organizationId,
      actor: { kind: 'user', id: person.id, address },
      action: 'member.added',
      subjectId: memberId,
      before: null,
      after: { role: 'owner' },
    })
    return person
  })
}

/** Returns the id of the organization `default`, which is not deleted until the end of the transaction. */
async function firstOrganization(
  tx: Transaction,
  dependencies: Omit<CreateOrganizationDependencies, 'database'>,
): Promise<string> {
  const found = await findOrganizationByName(tx, FIRST_ORGANIZATION)
  if (!found.ok)
    return (await createOrganization(tx, dependencies, { name: FIRST_ORGANIZATION, standing: 'established' })).id
  await keepFromDeletion(tx, found.value.id)
  return found.value.id
}
