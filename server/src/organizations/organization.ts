import { refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'

/**
 * `established`: made by an operator, or seasoned. `new`: registered itself or made as new; limits are tighter until it
 * is 7 days old or has paid (K2).
 */
export type Standing = 'established' | 'new'

/** A customer: owns keys, an account, usage, jobs. Everything that is billed is billed to one. */
export interface Organization {
  readonly id: string
  /** Unique in the installation; what an operator calls it by. */
  readonly name: string
  readonly standing: Standing
  readonly createdAtMs: number
  /** Who is told of limits that are reached and of a low balance; at most ten. */
  readonly notifyAddresses: readonly string[]
}

const NOTIFY_ADDRESSES_MAX = 10

/** Fits a table's column and a log line. */
const NAME_CHARACTERS_MAX = 64
/** A first character of `-` would be read as an option; the invisible and the unassigned make two names look alike. */
const NAME = /^[\p{L}\p{N}](?:(?: ?[^\p{C}\p{Z}])*)$/u

/**
 * Reads an organization's name: 1 to 64 characters, a letter or digit first, no control or invisible characters, no
 * space at either end and no two in a row. Accents are composed (NFC), so that one name has one spelling. Refuses
 * (`validation_failed`) all else.
 */
export function parseOrganizationName(text: string): Result<string> {
  const name = text.normalize('NFC')
  if ([...name].length <= NAME_CHARACTERS_MAX && NAME.test(name)) return ok(name)
  return refused(
    refusal(
      'validation_failed',
      `The name ${JSON.stringify(text.slice(0, 80))} can't be used: take 1 to ${NAME_CHARACTERS_MAX} characters that begin ` +
        'with a letter or a digit, without control characters and without spaces at the ends or in a row.',
      { param: 'name' },
    ),
  )
}

/** What every mail server takes, quoted local parts left out. */
const ADDRESS = /^[^\s@<>()[\],;:"\\\p{C}]{1,64}@[^\s@<>()[\],;:"\\\p{C}]{1,189}$/u

/** Reads the addresses that notices go to: each once, at most ten. Refuses (`validation_failed`) what is no address. */
export function parseNotifyAddresses(texts: readonly string[]): Result<readonly string[]> {
  const addresses = [...new Set(texts)]
  const bad = addresses.find((address) => !ADDRESS.test(address))
  if (bad !== undefined) {
    const shown = JSON.stringify(bad.slice(0, 80))
    return refused(
      refusal('validation_failed', `${shown} is no mail address: give one such as billing@example.com.`, {
        param: 'notify',
      }),
    )
  }
  if (addresses.length <= NOTIFY_ADDRESSES_MAX) return ok(addresses)
  return refused(
    refusal(
      'validation_failed',
      `An organization has at most ${NOTIFY_ADDRESSES_MAX} addresses for notices: give the address of a mailing list.`,
      { param: 'notify' },
    ),
  )
}
