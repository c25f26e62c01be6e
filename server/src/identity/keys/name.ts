import { refusal } from '../../lib/errors.ts'
import { NOT_IN_NAMES } from '../../lib/nameCharacters.ts'
import { ok, type Result, refused } from '../../lib/result.ts'

const NAME_CHARACTERS_MAX = 100

/**
 * Reads the name of a key: 1 to 100 characters on one line, without spaces around. Names need not differ.
 */
export function parseKeyName(text: string): Result<string> {
  const name = text.trim()
  if (name !== '' && [...name].length <= NAME_CHARACTERS_MAX && !NOT_IN_NAMES.test(name)) return ok(name)
  const advice = `use 1 to ${NAME_CHARACTERS_MAX} characters on one line`
  return refused(refusal('validation_failed', `This is not a name for a key: ${advice}.`))
}
