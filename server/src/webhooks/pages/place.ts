import { readCursor, writeCursor } from '../../lib/cursor.ts'
import { isUuid } from '../../lib/ids.ts'
import { isInstant } from '../../lib/instant.ts'

/** Where a page of a list begins: behind the entry that was made at this instant and has this id. */
export interface Place {
  /** Milliseconds since the epoch. */
  readonly createdAtMs: number
  readonly id: string
}

/** The lists that have places; a place of one is none of another. */
export type PlacedList = 'endpoints' | 'deliveries'

/** Writes a place as the opaque text that clients hand back. */
export function placeToWire(list: PlacedList, { createdAtMs, id }: Place): string {
  return writeCursor([list, createdAtMs, id])
}

/** Reads a cursor; null: it is not a cursor of this list. It names no organization: that is the key's. */
export function placeFromWire(list: PlacedList, text: string): Place | null {
  const fields = readCursor(text, 3)
  if (fields === null || fields[0] !== list) return null
  const [, createdAtMs, id] = fields
  if (typeof id !== 'string' || !isUuid(id) || !isInstant(createdAtMs)) return null
  const place = { createdAtMs, id }
  // Readers of base64 and JSON pass over much that no writer makes.
  return placeToWire(list, place) === text ? place : null
}
