import type { RandomBytes } from '../../../lib/ids.ts'

/** The code that a person types, such as `BCDF-GHJK`. */

/** Consonants alone, as RFC 8628 advises: they make no words, and few are taken for another. */
const LETTERS = 'BCDFGHJKLMNPQRSTVWXZ'
/** 20^8 is 2^34.5. It lives for minutes, and guesses are counted: by person, by address and in total. */
const LENGTH = 8
/** The largest multiple of 20 in a byte. Bytes from here on are drawn again, so that each letter is equally likely. */
const UNIFORM_LIMIT = 240

/** Draws a code, without its dash. */
export function drawUserCode(random: RandomBytes): string {
  let code = ''
  while (code.length < LENGTH) {
    for (const byte of random(LENGTH))
      if (byte < UNIFORM_LIMIT && code.length < LENGTH) code += LETTERS.charAt(byte % LETTERS.length)
  }
  return code
}

/** Returns the code as it is shown. */
export function printUserCode(code: string): string {
  return `${code.slice(0, LENGTH / 2)}-${code.slice(LENGTH / 2)}`
}

/** Reads a code as it was typed, in whatever case and with whatever between its letters; null when it is none. */
export function readUserCode(typed: string): string | null {
  const code = typed.toUpperCase().replaceAll(/[^A-Z0-9]/g, '')
  return code.length === LENGTH && [...code].every((letter) => LETTERS.includes(letter)) ? code : null
}
