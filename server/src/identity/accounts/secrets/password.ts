import { refusal } from '../../../lib/errors.ts'
import { ok, type Result, refused } from '../../../lib/result.ts'
import commonPasswords from './commonPasswords.json' with { type: 'json' }

/** How many characters a password has. */
export const PASSWORD_CHARACTERS = { least: 10, most: 128 } as const

/** A name or an address has at least so many characters to count as a part of a password: shorter ones are in many words. */
const PART_CHARACTERS_LEAST = 5
const DIFFERENT_CHARACTERS_LEAST = 4

const COMMON: ReadonlySet<string> = new Set(commonPasswords.passwords)

/** The person who has the password. */
export interface PasswordOwner {
  readonly name: string
  /** In lower case. */
  readonly email: string
}

/**
 * Reads a new password. Refuses (`validation_failed`), with the reason, one that is too short or too long, that many people have, or that
 * holds the name or the mail address of its owner.
 */
export function parsePassword(password: string, owner: PasswordOwner): Result<string> {
  const fault = faultOf(password, owner)
  return fault === null ? ok(password) : refused(refusal('validation_failed', fault, { param: 'password' }))
}

function faultOf(password: string, { name, email }: PasswordOwner): string | null {
  const { least, most } = PASSWORD_CHARACTERS
  if (password.length < least || password.length > most) return `A password has ${least} to ${most} characters.`
  const lowered = password.toLowerCase()
  if (new Set(lowered).size < DIFFERENT_CHARACTERS_LEAST)
    return `This password has fewer than ${DIFFERENT_CHARACTERS_LEAST} different characters. Choose another one.`
  if (isCommon(lowered))
    return 'Many people have this password, so it is among the first that are guessed. Choose another one, such as a few words that do not belong together.'
  const [localPart = ''] = email.split('@')
  if (holds(lowered, localPart)) return 'This password holds your mail address. Choose another one.'
  const words = name.toLowerCase().split(/\s+/)
  if ([...words, words.join('')].some((each) => holds(lowered, each)))
    return 'This password holds your name. Choose another one.'
  return null
}

/** Returns whether the password is a common one, with signs before or behind it too, such as `password123!`. */
function isCommon(lowered: string): boolean {
  return COMMON.has(lowered) || COMMON.has(lowered.replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, ''))
}

function holds(lowered: string, part: string): boolean {
  return part.length >= PART_CHARACTERS_LEAST && lowered.includes(part)
}
