/** Other servers decode a path once or twice at most. One that was encoded more often is nobody's. */
const DECODINGS_MOST = 4

/** A segment `.` or `..`, also with a parameter behind it (`..;a`), or with a byte at which some servers end a text. */
const DOTS = /(^|[/\\])\.\.?($|[/\\;\s\0])/

/**
 * Returns whether a path stays beneath another that is put before it, however the server that gets both decodes and
 * resolves them. False too for a path that only might not. `path` begins with `/`, and may have a query.
 */
export function staysBeneath(path: string): boolean {
  const [before = ''] = path.split('?', 1)
  let text = before
  for (let decodings = 0; decodings < DECODINGS_MOST; decodings += 1) text = decoded(text)
  // Some readers of URLs leave tabs and ends of lines out, wherever they stand.
  return decoded(text) === text && !DOTS.test(text) && !DOTS.test(text.replace(/[\t\r\n]/g, ''))
}

function decoded(text: string): string {
  return text.replace(/%([0-9a-f]{2})/gi, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}
