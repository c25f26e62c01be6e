/** The length of a text in quarters of a token, estimated: by it a hold is watched. Nothing is charged by it. */

/** Tokenizers make about one token of this much English prose; used to watch a hold, never to charge. */
export const UNITS_PER_TOKEN = 4

/** Other scripts make more tokens of a character: 1 for a Chinese one (2 bytes of UTF-8 more), 0.6 for a Cyrillic one. */
const UNITS_PER_EXTRA_BYTE = 1.5

/** An event of more characters is several tokens, and nobody counts them for us. */
const CHARACTERS_OF_ONE_TOKEN = 16
/** So is one of more digits: few tokenizers in use join four, and several join none. */
const DIGITS_OF_ONE_TOKEN = 3
/** In such an event a digit or a sign of ASCII may be a token by itself: several tokenizers never join them. */
const UNITS_PER_DENSE_CHARACTER = UNITS_PER_TOKEN - 1

/** Returns the units of a text of so many bytes of UTF-8. */
export function unitsOf(text: string, bytes: number): number {
  const units = text.length + UNITS_PER_EXTRA_BYTE * (bytes - text.length)
  if (text.length <= DIGITS_OF_ONE_TOKEN) return units
  let dense = 0
  let digits = 0
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index)
    if (isDense(code)) dense += 1
    if (isDigit(code)) digits += 1
  }
  if (text.length > CHARACTERS_OF_ONE_TOKEN) return units + UNITS_PER_DENSE_CHARACTER * dense
  return digits > DIGITS_OF_ONE_TOKEN ? units + UNITS_PER_DENSE_CHARACTER * digits : units
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}

/** True of ASCII's digits and signs: all of it but letters, white space and control characters. */
function isDense(code: number): boolean {
  if (code <= 0x20 || code >= 0x7f) return false
  const letter = code | 0x20
  return letter < 0x61 || letter > 0x7a
}
