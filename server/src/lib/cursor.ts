/** Cursors of pages: what a page goes on from, as an opaque text that clients hand back. */

/** They have some 80 characters, with a long model name up to 400; a longer text is none. */
const CURSOR_CHARACTERS_MAX = 512

/** The first entry of every cursor: one written in another way is told from these by it. */
const VERSION = 1

/** Writes what a page goes on from. A cursor is no secret, and whoever reads one back must not trust it. */
export function writeCursor(fields: readonly (string | number | null)[]): string {
  return Buffer.from(JSON.stringify([VERSION, ...fields])).toString('base64url')
}

/** The fields of a cursor, which may be anything; null where the text is none with so many of them. */
export function readCursor(text: string, fieldCount: number): readonly unknown[] | null {
  if (text.length > CURSOR_CHARACTERS_MAX) return null
  let read: unknown
  try {
    read = JSON.parse(Buffer.from(text, 'base64url').toString())
  } catch {
    return null
  }
  if (!Array.isArray(read) || read[0] !== VERSION || read.length !== fieldCount + 1) return null
  return read.slice(1)
}
