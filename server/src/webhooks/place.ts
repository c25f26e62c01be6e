import { readCursor, writeCursor } from '../kernel/cursor.ts'
import { isUuid } from '../kernel/ids.ts'
import { LATEST_MS } from '../kernel/instant.ts'

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

/** Reads a cursor; null when it is none that we made for this list. It names no organization: that is the key's. */
export function placeFromWire(list: PlacedList, text: string): Place | null {
  const fields = readCursor(text, 3)
  if (fields === null || fields[0] !== list) return null
  const [, createdAtMs, id] = fields
  if (typeof id !== 'string' || !isUuid(id)) return null
  const isInstant = Number.isSafeInteger(createdAtMs) && Number(createdAtMs) >= 0 && Number(createdAtMs) < LATEST_MS
  if (!isInstant) return null
  const place = { createdAtMs: Number(createdAtMs), id }
  // Readers of base64 and JSON pass over much that no writer makes.
  return placeToWire(list, place) === text ? place : null
}
