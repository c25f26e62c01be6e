import type { Database } from '../../infra/postgres/database.ts'
import type { Log } from '../../lib/log.ts'
import { type Clock, SECOND_MS, sleep } from '../../lib/time.ts'
import { type DeliveryUpdate, type GivenBack, giveBack, type HeldTurn, lockHeld, updateDeliveries } from './store.ts'

/** Rows a transaction. The attempts under way bound the number of rows that wait for the next one. */
const AT_ONCE = 500

/** Between two tries while the database is away. Leases that run out meanwhile are void, and their results with them. */
const PAUSE_MS = SECOND_MS

export interface DeliveryRecorderDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  /** Called with each result that counts, once it is written down. */
  readonly onSettled: (settled: DeliveryUpdate) => void
}

/** Writes results down together: what ends while one transaction is under way shares the next one. */
export interface DeliveryRecorder {
  settle(settled: DeliveryUpdate): void
  /** Gives a turn back, after everything that was settled before. Resolves when that is written, or given up. */
  giveBack(turn: GivenBack): Promise<void>
  /** Returns whether the last try failed: what is sent meanwhile may have to be sent again. */
  isBehind(): boolean
  /** Gives up what is not written yet: whoever takes its turns next makes the attempts again. */
  close(): void
}

interface Waiting extends GivenBack {
  readonly done: () => void
}

export function createDeliveryRecorder({
  database,
  clock,
  log,
  onSettled,
}: DeliveryRecorderDependencies): DeliveryRecorder {
  let results: DeliveryUpdate[] = []
  let turns: Waiting[] = []
  let isWriting = false
  let isBehind = false
  let isClosed = false

  const write = async () => {
    while (!isClosed && (results.length > 0 || turns.length > 0)) {
      const batch = results.slice(0, AT_ONCE)
      // Turns only once all results before them are in: they may be in a later batch.
      const given = results.length > AT_ONCE ? [] : turns.slice(0, AT_ONCE)
      try {
        for (const settled of await writeBatch(database, batch, given)) onSettled(settled)
        isBehind = false
      } catch (error) {
        isBehind = true
        log.warn({ err: error }, 'results of webhook deliveries could not be written; tried again in a second')
        await sleep(clock, PAUSE_MS)
        continue
      }
      results = results.slice(batch.length)
      turns = turns.slice(given.length)
      for (const { done } of given) done()
    }
    isWriting = false
  }
  const wake = () => {
    if (isWriting) return
    isWriting = true
    void write()
  }
  return {
    settle(settled) {
      results.push(settled)
      wake()
    },
    giveBack(turn) {
      if (isClosed) return Promise.resolve()
      return new Promise((done) => {
        turns.push({ ...turn, done })
        wake()
      })
    },
    isBehind: () => isBehind,
    close() {
      isClosed = true
      for (const { done } of turns) done()
    },
  }
}

/**
 * Gives those results that counted. Safe to repeat when the outcome of a commit is unknown: what was settled is not pending any
 * more, what was given back not held.
 */
function writeBatch(
  database: Database,
  batch: readonly DeliveryUpdate[],
  given: readonly GivenBack[],
): Promise<readonly DeliveryUpdate[]> {
  return database.transaction(async (tx) => {
    const held = await lockHeld(tx, [...batch, ...given])
    const isHeld = ({ endpointId, lease }: HeldTurn) => held.get(endpointId) === lease
    const valid = batch.filter(isHeld)
    if (valid.length > 0) await updateDeliveries(tx, valid)
    const back = given.filter(isHeld)
    if (back.length > 0) await giveBack(tx, back)
    return valid
  })
}
