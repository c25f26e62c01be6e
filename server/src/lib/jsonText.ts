/** Looks at JSON before it is parsed. */

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Returns where the string closes whose text begins at `start`; the end of the text where it does not. */
export function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start); end >= 0; end = text.indexOf('"', end + 1)) {
    let backslashes = 0
    while (text.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes += 1
    if (backslashes % 2 === 0) return end
  }
  return text.length
}

/**
 * Returns whether objects and lists stand within each other more than `most` deep. It looks at what stands outside of
 * strings.
 */
export function nestsDeeperThan(text: string, most: number): boolean {
  let depth = 0
  for (let index = 0; index < text.length; index += 1) {
    const character = text.charCodeAt(index)
    if (character === QUOTE) index = endOfString(text, index + 1)
    else if (character === 0x5b || character === 0x7b) {
      depth += 1
      if (depth > most) return true
    } else if (character === 0x5d || character === 0x7d) depth -= 1
  }
  return false
}
