const CHARACTERS_MOST = 254

/**
 * ASCII letters, digits and ' . _ + - before the sign, and behind it a domain of two labels or more, the last of letters alone.
 * It is no wider than the rule by which the package better-auth lets people sign in: an address that were taken elsewhere and
 * refused there would lock its owner out.
 */
const ADDRESS =
  /^(?!\.)(?!.*\.\.)[a-z0-9_'+.-]{0,63}[a-z0-9_+-]@(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$/

/**
 * Returns a mail address in lower case, without spaces around it; null for a text that is none. Says nothing about whether mail
 * arrives there.
 */
export function readMailAddress(text: string): string | null {
  const address = text.trim()
  // Before the letters are made small: some that are not ASCII become such.
  if (address.length > CHARACTERS_MOST || /[^\x21-\x7e]/.test(address)) return null
  const small = address.toLowerCase()
  return ADDRESS.test(small) ? small : null
}
