/** The options that a browser asks a device with (Web Authentication, level 3). Bytes are base64url; the page's script decodes them. */

import { uuidOfHex } from '../../../lib/ids.ts'
import { MINUTE_MS } from '../../../lib/time.ts'
import type { Person } from '../people/person.ts'
import { fromBase64Url, toBase64Url } from './answer.ts'

/** The server as devices know it. */
export interface RelyingParty {
  /** The host's name; a passkey works for it alone. */
  readonly id: string
  /** The origin of its pages. */
  readonly origin: string
}

/** Returns the server of a public URL, as devices know it. */
export function relyingPartyOf(publicUrl: string): RelyingParty {
  const { hostname, origin } = new URL(publicUrl)
  return { id: hostname, origin }
}

/** COSE numbers of the algorithms that the verifier knows: Ed25519, ES256, RS256. */
export const ALGORITHMS = [-8, -7, -257]

/** How long a browser waits for the person. As long as a challenge works. */
const TIMEOUT_MS = 5 * MINUTE_MS

/** Asks for a new passkey: one that a person need not be named for, on a device that verifies its user. */
export function registrationOptions(
  { id }: RelyingParty,
  person: Person,
  known: readonly Uint8Array[],
  challenge: Uint8Array,
): object {
  return {
    rp: { id, name: id },
    user: { id: userHandleOf(person.id), name: person.email, displayName: person.name },
    challenge: toBase64Url(challenge),
    pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: 'public-key', alg })),
    timeout: TIMEOUT_MS,
    attestation: 'none',
    authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
    excludeCredentials: known.map((each) => ({ type: 'public-key', id: toBase64Url(each) })),
  }
}

/** Asks for any passkey of this server that the device has. */
export function signInOptions({ id }: RelyingParty, challenge: Uint8Array): object {
  return { rpId: id, challenge: toBase64Url(challenge), timeout: TIMEOUT_MS, userVerification: 'required' }
}

/** The bytes of a person's id: devices keep them beside the passkey, and they name nobody. */
function userHandleOf(userId: string): string {
  return Buffer.from(userId.replaceAll('-', ''), 'hex').toString('base64url')
}

/** Returns the person's id of a handle; any other text gives no id of anybody. */
export function userIdOf(handle: string): string {
  return uuidOfHex(fromBase64Url(handle).toHex())
}
