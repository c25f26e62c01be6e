/**
 * The characters that no name of a person, a key or a passkey may hold, since others read it: controls, ends of lines, halves of
 * characters, and marks that turn the direction of the text behind them. Marks that join emoji may stand in it.
 */
export const NOT_IN_NAMES: RegExp = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u

/**
 * `://`, `www.`, or a slash behind a word with a dot and an ending such as `.example`, with or without a port. A bare `booking.com`
 * is the name of a company.
 */
const PAGE_ADDRESS = /:\/\/|(?<![\p{L}\p{N}])www\.|[\p{L}\p{N}]\.\p{L}[\p{L}\p{N}-]+(?::\d+)?[/\\]/iu

/** Returns whether a name holds the address of a page: it stands in mails to people who do not know the one who chose it. */
export function holdsPageAddress(name: string): boolean {
  // Also in wide letters, which mail programs may take for plain ones.
  return PAGE_ADDRESS.test(name.normalize('NFKC'))
}

/** Characters of a name in a mail: enough to tell whose it is, and too few to tell a story. */
const SHOWN_MOST = 40

/** Returns a name as mails show it: in quotes, with none inside, and cut behind 40 characters. */
export function quotedName(name: string): string {
  const characters = [...name.replace(/["“”„‟«»＂]/gu, "'")]
  return `"${characters.slice(0, SHOWN_MOST).join('')}${characters.length > SHOWN_MOST ? '...' : ''}"`
}
