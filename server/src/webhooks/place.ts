import { readCursor, writeCursor } from '../kernel/cursor.ts'
import { isUuid } from '../kernel/ids.ts'
import { LATEST_MS } from '../kernel/instant.ts'

/** Where a page of a list begins: behind the entry that was made at this instant and has this id. */
export interface Place {
  /** Milliseconds since the epoch. */
  readonly createdAtMs: number
  readonly id: string
}

/** Writes a place as the opaque text that clients hand back. */
export function placeToWire({ createdAtMs, id }: Place): string {
  return writeCursor([createdAtMs, id])
}

/** Reads a cursor; null when it is none of ours. It names no organization: that is the key's. */
export function placeFromWire(text: string): Place | null {
  const fields = readCursor(text, 2)
  if (fields === null) return null
  const [createdAtMs, id] = fields
  if (typeof id !== 'string' || !isUuid(id)) return null
  const isInstant = Number.isSafeInteger(createdAtMs) && Number(createdAtMs) >= 0 && Number(createdAtMs) < LATEST_MS
  return isInstant ? { createdAtMs: Number(createdAtMs), id } : null
}
