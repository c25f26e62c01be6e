import { isUuid } from '../kernel/ids.ts'

/** Where a page of a list begins: behind the entry that was made at this instant and has this id. */
export interface Place {
  /** Milliseconds since the epoch. */
  readonly createdAtMs: number
  readonly id: string
}

/** Cursors are some 80 characters; a longer text is none. */
const CURSOR_CHARACTERS_MAX = 128

/** The last instant that both the database and the wire can write. */
const LATEST_MS = Date.UTC(9999, 0)

/** Writes a place as the opaque text that clients hand back. */
export function placeToWire({ createdAtMs, id }: Place): string {
  return Buffer.from(JSON.stringify([1, createdAtMs, id])).toString('base64url')
}

/** Reads a cursor; null when it is none of ours. It names no organization: that is the key's. */
export function placeFromWire(text: string): Place | null {
  if (text.length > CURSOR_CHARACTERS_MAX) return null
  let read: unknown
  try {
    read = JSON.parse(Buffer.from(text, 'base64url').toString())
  } catch {
    return null
  }
  if (!Array.isArray(read) || read.length !== 3 || read[0] !== 1) return null
  const [, createdAtMs, id]: unknown[] = read
  if (typeof id !== 'string' || !isUuid(id)) return null
  const isInstant = Number.isSafeInteger(createdAtMs) && Number(createdAtMs) >= 0 && Number(createdAtMs) < LATEST_MS
  return isInstant ? { createdAtMs: Number(createdAtMs), id } : null
}
