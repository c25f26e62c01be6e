/**
 * The sandbox's tokens: up to {@link MAX_PIECE} characters of a word together with the white space before them. Splitting
 * a text, and splitting any run of its first tokens put together again, gives the same tokens: counts are exact.
 */
const MAX_PIECE = 6

/** Returns how many tokens a text has; 0 for the empty one. */
export function countTokens(text: string): number {
  let count = 0
  for (let at = 0; at < text.length; at = tokenEnd(text, at)) count += 1
  return count
}

/** The tokens of a text, in order; joined they are the text again. At most `limit` of them. */
export function splitTokens(text: string, limit: number): string[] {
  const tokens: string[] = []
  let at = 0
  while (at < text.length && tokens.length < limit) {
    const end = tokenEnd(text, at)
    tokens.push(text.slice(at, end))
    at = end
  }
  return tokens
}

function tokenEnd(text: string, start: number): number {
  let at = start
  while (at < text.length && isSpace(text.charCodeAt(at))) at += 1
  const wordStart = at
  while (at < text.length && at - wordStart < MAX_PIECE && !isSpace(text.charCodeAt(at))) at += 1
  // Both halves of a surrogate pair belong to one token.
  return isHighSurrogate(text.charCodeAt(at - 1)) && isLowSurrogate(text.charCodeAt(at)) ? at + 1 : at
}

function isSpace(code: number): boolean {
  return code <= 0x20
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff
}

function isLowSurrogate(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff
}
