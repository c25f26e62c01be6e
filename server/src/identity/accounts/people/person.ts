import { refusal } from '../../../lib/errors.ts'
import { readMailAddress } from '../../../lib/mailAddress.ts'
import { holdsPageAddress, NOT_IN_NAMES } from '../../../lib/nameCharacters.ts'
import { ok, type Result, refused } from '../../../lib/result.ts'
import { parsePassword } from '../secrets/password.ts'

/** A person who signs in. */
export interface Person {
  readonly id: string
  readonly name: string
  /** In lower case. */
  readonly email: string
  readonly isOperator: boolean
}

/** Everything that is stored of a person in this folder's tables, but the password. Instants are milliseconds since the epoch. */
export interface PersonDetails extends Person {
  readonly isEmailVerified: boolean
  readonly createdAtMs: number
  readonly updatedAtMs: number
  /** When the password was set; null: the person has none. */
  readonly passwordSetAtMs: number | null
}

const NAME_CHARACTERS_MOST = 100

const NO_ADDRESS = refusal(
  'validation_failed',
  "This mail address can't be used. Use one such as ada@example.com: ASCII letters and digits, at a domain with a dot.",
  { param: 'email' },
)

/** Reads a mail address, in lower case. Refuses (`validation_failed`) what is none. */
export function parseEmail(text: string): Result<string> {
  const email = readMailAddress(text)
  return email === null ? refused(NO_ADDRESS) : ok(email)
}

/** Reads a person's name: 1 to 100 characters on one line. */
function parsePersonName(text: string): Result<string> {
  const name = text.trim().normalize('NFC')
  if (name !== '' && name.length <= NAME_CHARACTERS_MOST && !NOT_IN_NAMES.test(name) && !holdsPageAddress(name))
    return ok(name)
  return refused(
    refusal(
      'validation_failed',
      `A name has 1 to ${NAME_CHARACTERS_MOST} characters on one line, and no address of a page. Type your name alone: without "://", "www.", or a slash behind a word such as "a.example".`,
      { param: 'name' },
    ),
  )
}

export interface NewPerson {
  readonly name: string
  readonly email: string
  readonly password: string
}

/** Reads the fields of a new person. */
export function checkPerson(wanted: NewPerson): Result<Pick<Person, 'name' | 'email'>> {
  const name = parsePersonName(wanted.name)
  if (!name.ok) return name
  const email = parseEmail(wanted.email)
  if (!email.ok) return email
  const password = parsePassword(wanted.password, { name: name.value, email: email.value })
  return password.ok ? ok({ name: name.value, email: email.value }) : password
}
