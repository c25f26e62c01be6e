import { refusal } from '../../../lib/errors.ts'
import { NOT_IN_NAMES } from '../../../lib/nameCharacters.ts'
import { ok, type Result, refused } from '../../../lib/result.ts'

/** How many passkeys a person may have. */
export const PASSKEYS_MOST = 20

const NAME_CHARACTERS_MOST = 60

/** A passkey in its person's own list. Instants are milliseconds since the epoch. */
export interface Passkey {
  readonly id: string
  /** The person's own word for it. */
  readonly name: string
  readonly createdAtMs: number
  /** Null: never used. */
  readonly lastUsedAtMs: number | null
}

/** The parts of a passkey that its signatures are verified with. */
export interface PasskeyCredential {
  /** Chosen by the device. */
  readonly credentialId: Uint8Array
  /** COSE. */
  readonly publicKey: Uint8Array
  /** How often the device says that it has signed; 0: it does not count. */
  readonly signCount: number
}

/** A passkey as it is found by the answer of a device. */
export interface FoundPasskey extends PasskeyCredential {
  readonly id: string
  readonly userId: string
}

/** Reads the name of a passkey: 1 to 60 characters on one line. */
export function parsePasskeyName(text: string): Result<string> {
  const name = text.trim().normalize('NFC')
  if (name !== '' && name.length <= NAME_CHARACTERS_MOST && !NOT_IN_NAMES.test(name)) return ok(name)
  const message = `A passkey's name has 1 to ${NAME_CHARACTERS_MOST} characters on one line.`
  return refused(refusal('validation_failed', message, { param: 'name' }))
}
