import type { Queryable } from '../../infra/postgres/database.ts'
import { createRecent } from '../../lib/recent.ts'
import { type Clock, SECOND_MS, within } from '../../lib/time.ts'
import type { KeyToAuthenticate } from './key.ts'
import { type FoundKey, LOOK_UP_TIMEOUT_MS, LookUps } from './lookUps.ts'
import { findKeysByHash } from './store.ts'

/** The keys that a process remembers, and how it comes to forget them in time. */

/** About 30 MB of heap at its fullest, measured. */
const REMEMBERED_KEYS = 100_000
const REMEMBERED_UNKNOWNS = 20_000
/** The news of a key's creation ends this earlier; the bound is for news that was never sent. */
const UNKNOWN_FOR_MS = 10 * SECOND_MS

export interface KnownKeys<K> {
  /** Returns the remembered entry of a key; not to be relied on for a known key unless {@link KnownKeys.isCurrent}. */
  remembered(keyHash: string): K | 'unknown' | undefined
  /** Returns whether memory can be relied on: all news is sure to be heard. */
  isCurrent(): boolean
  /**
   * Asks the database; never rejects because of it. The key waits in the named line for its turn, behind the others of that line
   * alone. Callers in one line that ask for the same key at the same time share one query.
   */
  lookUp(line: string, keyHash: string): Promise<FoundKey<K>>
  /** A key was made or revoked somewhere, or its organization's limits have changed. */
  hear(keyHash: string): void
  /** Tells if news is sure to arrive from now on; false at first. On true, all that is remembered is forgotten. */
  setCurrent(current: boolean): void
}

interface KnownKeysOptions<K> {
  readonly database: Queryable
  readonly clock: Clock
  readonly report: (error: unknown) => void
  /** Turns a row into what is kept; throws on a row that can't be right. */
  readonly remember: (stored: KeyToAuthenticate) => K
}

/**
 * A look-up that is under way when its key changes is let go: its callers get what it finds, for they came before the
 * news, but it is not remembered, and who comes later asks anew.
 */
export function createKnownKeys<K extends object>(options: KnownKeysOptions<K>): KnownKeys<K> {
  const { database, clock, report, remember } = options
  const keys = createRecent<K>(REMEMBERED_KEYS)
  const unknownUntilMs = createRecent<number>(REMEMBERED_UNKNOWNS)
  /** By hash and line. */
  const underWay = new Map<string, Map<string, Promise<FoundKey<K>>>>()
  let current = false
  const lookUps = new LookUps({ clock, report, find: (keyHashes) => findKeysByHash(database, keyHashes) })

  const ask = async (line: string, keyHash: string): Promise<FoundKey<K>> => {
    const found = await within(clock, LOOK_UP_TIMEOUT_MS, lookUps.ask(line, keyHash), 'unavailable' as const)
    return typeof found === 'string' ? found : remember(found)
  }

  const keep = (keyHash: string, outcome: FoundKey<K>) => {
    if (outcome === 'unavailable') return
    if (outcome === 'unknown') unknownUntilMs.set(keyHash, clock.monotonicMs() + UNKNOWN_FOR_MS)
    else keys.set(keyHash, outcome)
  }

  return {
    remembered(keyHash) {
      const key = keys.get(keyHash)
      if (key !== undefined) return key
      const untilMs = unknownUntilMs.get(keyHash)
      return untilMs !== undefined && current && clock.monotonicMs() < untilMs ? 'unknown' : undefined
    },
    isCurrent: () => current,
    hear(keyHash) {
      keys.delete(keyHash)
      unknownUntilMs.delete(keyHash)
      underWay.delete(keyHash)
    },
    setCurrent(nowCurrent) {
      current = nowCurrent
      if (!current) return
      keys.clear()
      unknownUntilMs.clear()
      underWay.clear()
    },
    lookUp(line, keyHash) {
      const same = underWay.get(keyHash) ?? new Map<string, Promise<FoundKey<K>>>()
      // Unconfirmed, an answer that is under way may be older than a revocation nobody told us of: ask each time.
      const shared = current ? same.get(line) : undefined
      if (shared !== undefined) return shared
      const isLast = () => underWay.get(keyHash)?.get(line) === lookUp
      const lookUp: Promise<FoundKey<K>> = ask(line, keyHash)
        .then((outcome) => {
          if (isLast()) keep(keyHash, outcome)
          return outcome
        })
        .finally(() => {
          if (!isLast()) return
          same.delete(line)
          if (same.size === 0) underWay.delete(keyHash)
        })
      same.set(line, lookUp)
      underWay.set(keyHash, same)
      return lookUp
    },
  }
}
