import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import { Refused, refusal } from '../../../lib/errors.ts'
import { uuidV7 } from '../../../lib/ids.ts'
import { type Result, refused } from '../../../lib/result.ts'
import { inTransaction } from '../../audit/inTransaction.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import { lockPerson } from '../people/find.ts'
import type { Person } from '../people/person.ts'
import { readNewPasskey } from './answer.ts'
import { type ChallengeDependencies, drawChallenge, takeChallenge } from './challenge.ts'
import { type RelyingParty, registrationOptions } from './options.ts'
import { PASSKEYS_MOST, parsePasskeyName } from './passkey.ts'
import { insertPasskey, selectCredentialIds } from './store.ts'
import type { PasskeyVerifier } from './verifier.ts'

export interface RegisterDependencies extends ChallengeDependencies {
  readonly database: Database
  readonly verifier: PasskeyVerifier
  readonly relyingParty: () => RelyingParty
  /** Enqueues the mail that tells a person of a change to the ways in which they sign in. */
  readonly tellOfChange: (tx: Transaction, person: Person, change: string) => Promise<void>
}

/** The person who adds a passkey, and the browser. */
export interface Registering {
  readonly person: Person
  readonly formToken: string
  readonly address: string
}

const NOT_ADDED = refusal(
  'validation_failed',
  'The passkey was not added: the page was too old, or the answer of the device was not a good one. Try again.',
)
const TOO_MANY = refusal(
  'validation_failed',
  `The passkey was not added: you have ${PASSKEYS_MOST} already, or this device is known. Remove one first.`,
)

/** Returns the options with which a browser asks a device for a new passkey of the person. */
export async function askForPasskey(
  dependencies: RegisterDependencies,
  { person, formToken }: Pick<Registering, 'person' | 'formToken'>,
): Promise<object> {
  const known = await selectCredentialIds(dependencies.database, person.id, PASSKEYS_MOST)
  const challenge = await drawChallenge(dependencies, formToken, person.id)
  return registrationOptions(dependencies.relyingParty(), person, known, challenge)
}

/**
 * Adds a passkey by the answer of a device, and tells the person. Refused (`validation_failed`) when the name can't be used, the
 * answer is not a good one, or the person has too many.
 */
export async function addPasskey(
  { database, clock, random, verifier, relyingParty, tellOfChange }: RegisterDependencies,
  { person, formToken, address }: Registering,
  { name: text, answer: answerText }: { readonly name: string; readonly answer: string },
): Promise<Result<string>> {
  const name = parsePasskeyName(text)
  if (!name.ok) return name
  const challenge = await takeChallenge({ database, clock }, formToken, person.id)
  const answer = readNewPasskey(answerText)
  if (challenge === null || answer === null) return refused(NOT_ADDED)
  const credential = await verifier.registration(relyingParty(), answer, challenge)
  if (credential === null) return refused(NOT_ADDED)
  const nowMs = clock.now()
  const id = uuidV7(nowMs, random)
  return inTransaction(database, null, async (tx) => {
    await lockPerson(tx, person.id)
    const passkey = { ...credential, id, userId: person.id, name: name.value }
    if (!(await insertPasskey(tx, passkey, nowMs, PASSKEYS_MOST))) throw new Refused(TOO_MANY)
    await recordAuditEntry(tx, random, nowMs, {
      organizationId: null,
      actor: { kind: 'user', id: person.id, address },
      action: 'passkey.added',
      subjectId: id,
      before: null,
      after: { name: name.value },
    })
    await tellOfChange(tx, person, `The passkey “${name.value}” was added`)
    return id
  })
}
