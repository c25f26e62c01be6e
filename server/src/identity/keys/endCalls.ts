import type { Queryable } from '../../infra/postgres/database.ts'
import { type Clock, SECOND_MS } from '../../lib/time.ts'
import { selectKeyEnds } from './store.ts'

/** Ends the calls of keys that were revoked or have expired, within a second of it (K6). */

/** How often it is looked whether a key with calls under way has ended. */
export const KEYS_LOOK_MS = 500

/**
 * After news the database is asked for so long: a call whose key was good when its head came is registered once its body is here,
 * 60 s later at most.
 */
const ASK_MS = 90 * SECOND_MS

/** The calls under way in this process, by key. */
export interface CallsByKey {
  keys(): readonly { readonly id: string; readonly expiresAtMs: number | null }[]
  /** Changes the expiry of a key for its calls under way. Null: it never expires. */
  setExpiry(keyId: string, expiresAtMs: number | null): void
  endKey(keyId: string): void
}

interface EndCallsDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly openCalls: CallsByKey
}

export interface KeyEnds {
  /** Some key has changed: at the next looks the database is asked. */
  hear(): void
  /** Tells if news is sure to arrive. While it is not, the database is asked at each look. */
  setCurrent(current: boolean): void
  /** One look. Never rejects: while the database is away it is asked again at the next one. */
  look(): Promise<void>
}

export function createKeyEnds({ database, clock, openCalls }: EndCallsDependencies): KeyEnds {
  let isCurrent = false
  let askUntilMs = Number.NEGATIVE_INFINITY
  const beginAsking = () => {
    askUntilMs = clock.monotonicMs() + ASK_MS
  }
  return {
    hear: beginAsking,
    setCurrent(current) {
      isCurrent = current
      beginAsking()
    },
    async look() {
      const nowMs = clock.now()
      const isOver = (expiresAtMs: number | null) => expiresAtMs !== null && expiresAtMs <= nowMs
      const keys = openCalls.keys()
      const expired = keys.filter(({ expiresAtMs }) => isOver(expiresAtMs))
      const isQuiet = isCurrent && clock.monotonicMs() >= askUntilMs
      // An expired key may have been given more time meanwhile.
      const asked = isQuiet ? expired : keys
      if (asked.length === 0) return
      try {
        const ends = await selectKeyEnds(
          database,
          asked.map(({ id }) => id),
        )
        for (const { id, isRevoked, expiresAtMs } of ends) {
          if (isRevoked || isOver(expiresAtMs)) openCalls.endKey(id)
          else openCalls.setExpiry(id, expiresAtMs)
        }
      } catch {
        beginAsking()
        for (const { id } of expired) openCalls.endKey(id)
      }
    },
  }
}
