import { refusal } from '../../lib/errors.ts'
import { isUuid } from '../../lib/ids.ts'
import { readMailAddress } from '../../lib/mailAddress.ts'
import { holdsPageAddress } from '../../lib/nameCharacters.ts'
import { ok, type Result, refused } from '../../lib/result.ts'

/**
 * `established`: made by an operator, or seasoned. `new`: registered itself or made as new; limits are tighter until it
 * is 7 days old or has paid (K2).
 */
export type Standing = 'established' | 'new'

/** A customer: owns keys, an account, usage, jobs. Everything that is billed is billed to one. */
export interface Organization {
  readonly id: string
  /**
   * Unique among those that an operator made, which operators call by it. Those that registered are called by their ids. Of one that is
   * deleted: `deleted` and its id.
   */
  readonly name: string
  readonly standing: Standing
  readonly createdAtMs: number
  /** The addresses that are told of limits that are reached and of a low balance; at most ten. */
  readonly notifyAddresses: readonly string[]
  /** Milliseconds since the epoch; null: it is not deleted. */
  readonly deletedAtMs: number | null
}

const NOTIFY_ADDRESSES_MAX = 10

/** Fits a table's column and a log line. */
const NAME_CHARACTERS_MAX = 64
/** A first character of `-` would be read as an option; the invisible and the unassigned make two names look alike. */
const NAME = /^[\p{L}\p{N}](?:(?: ?[^\p{C}\p{Z}])*)$/u

/**
 * Reads an organization's name: 1 to 64 characters, a letter or digit first, no control or invisible characters, no
 * space at either end and no two in a row, no id, and no address of a page: the name stands in mails to people who do not know the
 * organization. Accents are composed (NFC), so that one name has one spelling. Refuses (`validation_failed`) all else.
 */
export function parseOrganizationName(text: string): Result<string> {
  const name = text.normalize('NFC')
  if (isUuid(name)) {
    const problem = 'A name can not look like an id: organizations that registered themselves are called by their ids.'
    return refused(refusal('validation_failed', problem, { param: 'name' }))
  }
  if (holdsPageAddress(name)) {
    const problem =
      'A name can not hold the address of a page: it stands in mails, such as invitations. Use the name of your organization alone, without "://", "www.", or a slash behind a word such as "a.example".'
    return refused(refusal('validation_failed', problem, { param: 'name' }))
  }
  if ([...name].length <= NAME_CHARACTERS_MAX && NAME.test(name)) return ok(name)
  return refused(
    refusal(
      'validation_failed',
      `The name ${JSON.stringify(text.slice(0, 80))} can't be used: use 1 to ${NAME_CHARACTERS_MAX} characters that begin ` +
        'with a letter or a digit, without control characters, spaces at either end, or two spaces in a row.',
      { param: 'name' },
    ),
  )
}

/** Reads the addresses that notices go to: each once, at most ten. Refuses (`validation_failed`) what is no address. */
export function parseNotifyAddresses(texts: readonly string[]): Result<readonly string[]> {
  const addresses = [...new Set(texts.map((text) => text.trim()))]
  const bad = addresses.find((address) => readMailAddress(address) === null)
  if (bad !== undefined) {
    const shown = JSON.stringify(bad.slice(0, 80))
    return refused(
      refusal('validation_failed', `${shown} is not a mail address: use one such as billing@example.com.`, {
        param: 'notify',
      }),
    )
  }
  if (addresses.length <= NOTIFY_ADDRESSES_MAX) return ok(addresses)
  return refused(
    refusal(
      'validation_failed',
      `An organization has at most ${NOTIFY_ADDRESSES_MAX} addresses for notices: use the address of a mailing list.`,
      { param: 'notify' },
    ),
  )
}
