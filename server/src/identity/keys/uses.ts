import type { Queryable } from '../../infra/postgres/database.ts'
import { upsertUses } from './store.ts'

/** Keys of one statement. */
const BATCH = 1_000

/** Keys that wait to be written, at most: as many as a process remembers. More are left out until the next minute. */
const WAITING_MOST = 100_000

export interface KeyUses {
  /** Notes that a key was used at an instant (milliseconds since the epoch). Returns at once. */
  note(keyId: string, atMs: number): void
  /** Writes the noted uses to the database. Uses that could not be written are kept for the next time. */
  write(): Promise<void>
}

/** Keeps the last use of keys in memory until it is written, in batches and off the path of calls. */
export function createKeyUses(database: Queryable): KeyUses {
  const noted = new Map<string, number>()
  return {
    note(keyId, atMs) {
      if (noted.has(keyId) || noted.size < WAITING_MOST) noted.set(keyId, atMs)
    },
    async write() {
      // In one order in all processes, so that no two wait for each other.
      const all = [...noted].sort(([a], [b]) => (a < b ? -1 : 1))
      for (let first = 0; first < all.length; first += BATCH) {
        const batch = all.slice(first, first + BATCH)
        await upsertUses(database, batch)
        for (const [keyId, atMs] of batch) if (noted.get(keyId) === atMs) noted.delete(keyId)
      }
    },
  }
}
