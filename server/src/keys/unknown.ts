import { MINUTE_MS, SECOND_MS } from '../kernel/time.ts'

/** Counts the unknown keys that each address presents, so that guessing at keys costs the database nothing. */

/** A client with a mistyped key retries a few times a minute; only a search sends more. */
const UNKNOWN_KEYS_A_MINUTE = 60
/** About 10 MB at its fullest, measured. Beyond it the address that was counted longest ago is forgotten. */
const ADDRESSES = 10_000

export interface UnknownKeys {
  /** Whole seconds until the address may present unknown keys again; undefined: it may now. */
  blockedSeconds(address: string, nowMs: number): number | undefined
  /** Counts one unknown key. */
  count(address: string, nowMs: number): void
}

/** `nowMs` is monotonic. The window slides: never more than 60 in any 60 seconds. */
export function createUnknownKeys(): UnknownKeys {
  /** The last instants at which each address presented an unknown key, oldest first; at most 60. */
  const instants = new Map<string, number[]>()
  return {
    blockedSeconds(address, nowMs) {
      const counted = instants.get(address)
      if (counted === undefined || counted.length < UNKNOWN_KEYS_A_MINUTE) return undefined
      const waitMs = (counted[0] ?? 0) + MINUTE_MS - nowMs
      return waitMs > 0 ? Math.ceil(waitMs / SECOND_MS) : undefined
    },
    count(address, nowMs) {
      const counted = instants.get(address) ?? []
      if (counted.length >= UNKNOWN_KEYS_A_MINUTE) counted.shift()
      counted.push(nowMs)
      instants.delete(address)
      instants.set(address, counted)
      if (instants.size > ADDRESSES) {
        for (const longestAgo of instants.keys()) {
          instants.delete(longestAgo)
          break
        }
      }
    },
  }
}
