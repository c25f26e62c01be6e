import type { Queryable } from '../io/postgres/database.ts'
import { type Clock, SECOND_MS } from '../kernel/time.ts'
import type { KeyAtTheDoor } from './key.ts'
import { createRecent } from './recent.ts'
import { findKeyByHash } from './store.ts'

/** What a process remembers of keys, and how it comes to forget in time. */

/** About 30 MB of heap at its fullest, measured. */
const REMEMBERED_KEYS = 100_000
const REMEMBERED_UNKNOWNS = 20_000
/** The news of a key's creation ends this earlier; the bound is for news that was never sent. */
const UNKNOWN_FOR_MS = 10 * SECOND_MS
/** Queries not yet answered. A database that stalls is refused at the door instead of queued for. */
const LOOK_UPS_AT_ONCE = 1_000
/** A request is not kept longer than this by a database that doesn't answer. */
const LOOK_UP_TIMEOUT_MS = 5 * SECOND_MS

export interface KnownKeys<K> {
  /** What memory has on a key; not to be relied on for a known key unless {@link KnownKeys.isCurrent}. */
  remembered(keyHash: string): K | 'unknown' | undefined
  /** Whether memory can be relied on: all news is sure to be heard. */
  isCurrent(): boolean
  /** Asks the database; never rejects because of it. Calls for the same key at the same time share one query. */
  lookUp(keyHash: string): Promise<K | 'unknown' | 'unavailable'>
  /** A key was made or revoked somewhere, or its organization's limits have changed. */
  hear(keyHash: string): void
  /** Whether news is sure to arrive from now on; false at first. On true, all that is remembered is forgotten. */
  setCurrent(current: boolean): void
}

interface KnownKeysOptions<K> {
  readonly database: Queryable
  readonly clock: Clock
  readonly report: (error: unknown) => void
  /** Turns a row into what is kept; throws on a row that can't be right. */
  readonly remember: (stored: KeyAtTheDoor) => K
}

type Outcome<K> = K | 'unknown' | 'unavailable'

/**
 * A look-up that is under way when its key changes is let go: its callers get what it finds, for they came before the
 * news, but it is not remembered, and who comes later asks anew.
 */
export function createKnownKeys<K extends object>(options: KnownKeysOptions<K>): KnownKeys<K> {
  const { database, clock, report, remember } = options
  const keys = createRecent<K>(REMEMBERED_KEYS)
  const unknownUntilMs = createRecent<number>(REMEMBERED_UNKNOWNS)
  const underWay = new Map<string, Promise<Outcome<K>>>()
  let queries = 0
  let current = false

  const query = async (keyHash: string): Promise<Outcome<K>> => {
    let stored: KeyAtTheDoor | undefined
    queries += 1
    try {
      stored = await findKeyByHash(database, keyHash)
    } catch (error) {
      report(error)
      return 'unavailable'
    } finally {
      queries -= 1
    }
    return stored === undefined ? 'unknown' : remember(stored)
  }

  const keep = (keyHash: string, outcome: Outcome<K>) => {
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
    lookUp(keyHash) {
      // Unconfirmed, an answer that is under way may be older than a revocation nobody told us of: ask each time.
      const shared = current ? underWay.get(keyHash) : undefined
      if (shared !== undefined) return shared
      if (queries >= LOOK_UPS_AT_ONCE) return Promise.resolve('unavailable')
      const lookUp: Promise<Outcome<K>> = withDeadline(clock, query(keyHash))
        .then((outcome) => {
          if (underWay.get(keyHash) === lookUp) keep(keyHash, outcome)
          return outcome
        })
        .finally(() => {
          if (underWay.get(keyHash) === lookUp) underWay.delete(keyHash)
        })
      underWay.set(keyHash, lookUp)
      return lookUp
    },
  }
}

function withDeadline<T>(clock: Clock, work: Promise<T>): Promise<T | 'unavailable'> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(LOOK_UP_TIMEOUT_MS, () => resolve('unavailable'))
    work.then(resolve, reject).finally(cancel)
  })
}
