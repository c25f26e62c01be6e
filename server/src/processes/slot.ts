/**
 * A process's slot: a small number under which it writes rows of its own. A process owns its slot by a session advisory
 * lock. A killed process loses the lock within milliseconds; a stopped process keeps it. The process that holds the lock
 * owns the slot's rows, whichever process wrote them.
 */

import type { Database, Queryable, Transaction } from '../infra/postgres/database.ts'
import { keepSession } from '../infra/postgres/keptSession.ts'
import { LOCK_CLASS } from '../infra/postgres/locks.ts'
import type { Session } from '../infra/postgres/session.ts'
import type { Log } from '../lib/log.ts'
import { type Clock, SECOND_MS, sleep } from '../lib/time.ts'
import { OwnersTime } from './ownersTime.ts'
import { listSlots, shareLock, takeLock, takeSlot } from './store.ts'

/** More processes than anyone runs on one database; only bounds the search for a free slot. */
const SLOT_LIMIT = 1_024

const FOLDING_PATIENCE_MS = 2 * SECOND_MS
const FOLDING_POLL_MS = 20

/**
 * Takes one part of what a slot's former owner left behind. The caller holds the slot's lock. `takenAtMs` names this process's taking
 * of the slot, where it is its own; null for the slot of a dead process. `after`: the place to go on from; null: the beginning.
 * Resolves to the place from which the next call, in another transaction, goes on; null: this was the last part.
 */
export type FoldSlot = (
  tx: Transaction,
  slot: number,
  takenAtMs: number | null,
  after: string | null,
) => Promise<string | null>

/** Reads the slots under which something is left that is not folded, living ones among them. */
export type ListUnfolded = (db: Queryable) => Promise<number[]>

export interface SlotOptions {
  readonly database: Database
  /** Opens the pinned connection that is to hold the lock; called again whenever it was lost. Its name has the process's token. */
  readonly connect: () => Promise<Session>
  readonly clock: Clock
  readonly log: Log
  readonly fold: FoldSlot
  readonly listUnfolded: ListUnfolded
  /** True when nobody else can have used the database since it started: the embedded one, owned by this process. */
  readonly alone: boolean
  /** The slot was lost for a while, and it or another one is owned now; another process may have folded what was granted to it. */
  readonly onRegained: () => void
}

export interface Slot {
  /** Changes where another process took the slot while the connection was lost: read it anew for each statement. */
  readonly number: number
  /** False while the connection that holds the lock is gone: nothing may be admitted then. */
  isOwned(): boolean
  /** Names the last taking of it. Once another process has taken it, renewals that cite this one are given nothing. */
  takenAtMs(): number
  /** Folds what all slots without an owner have. Run after the start and now and then. */
  foldAbandoned(): Promise<void>
  /** Returns whether nobody owns a slot, this process's own excepted; if so, nobody takes it before the transaction ends. */
  isAbandoned(tx: Transaction, slot: number): Promise<boolean>
  release(): Promise<void>
}

/**
 * Takes a free slot: one of which everything is folded, so that a start does not wait for what a dead process left behind, however much
 * that is. When the connection is lost, the slot is taken again; where another process has it by then, another slot.
 */
export async function claimSlot(options: SlotOptions): Promise<Slot> {
  const { database, clock, log, fold } = options
  let number: number | null = null
  let takenAtMs = 0
  let wasAnothers = false
  let isReleased = false
  const ownersTime = new OwnersTime(clock)
  /** Returns whether a lock that is free means that its owner is dead. */
  const mayTakeOver = async (db: Queryable) => options.alone || (await ownersTime.isOver(db))

  const foldOwn = () => foldWhole((after) => database.transaction((tx) => fold(tx, current(), takenAtMs, after)))
  const regain = async (session: Session, before: number): Promise<void> => {
    const hasIt = await takeAgain(session, before, clock)
    const own = hasIt ? before : await findFree(session, options, await mayTakeOver(database))
    const taken = await takeSlot(session, own, clock.now())
    wasAnothers ||= own !== before || taken.beforeMs !== takenAtMs
    // Together: whoever cites the one cites the other.
    number = own
    takenAtMs = taken.takenAtMs
    if (own !== before)
      log.warn({ before, now: own }, 'another process has taken the slot of this one; it has another slot now')
    // A process that had it in between may have been granted money that nobody would give back.
    if (wasAnothers) await foldOwn()
    wasAnothers = false
    options.onRegained()
  }
  const connect = async (): Promise<Session> => {
    const session = await options.connect()
    try {
      if (number === null) {
        const free = await findFree(session, options, await mayTakeOver(database))
        takenAtMs = (await takeSlot(session, free, clock.now())).takenAtMs
        number = free
      } else await regain(session, number)
      return session
    } catch (error) {
      await session.close()
      throw error
    }
  }
  const held = await keepSession(connect, {
    clock,
    log: (message) => log.warn({}, message),
    // Nobody else's slot is fought for: there is always another.
    onLost: () => {},
  })
  const current = () => number ?? 0
  // A late statement of its former owner may have left something since it was folded.
  await underOneTaking(() => takenAtMs, foldOwn)

  return {
    get number() {
      return current()
    },
    isOwned: () => !held.session().lost,
    takenAtMs: () => takenAtMs,
    foldAbandoned: () => foldOthers(options, current, mayTakeOver, () => isReleased),
    async isAbandoned(tx, slot) {
      if (slot === current() || !(await shareLock(tx, LOCK_CLASS.slot, slot))) return false
      return mayTakeOver(tx)
    },
    async release() {
      isReleased = true
      held.letGo()
      await held.session().close()
    },
  }
}

/**
 * Takes the lock of a slot again, and ends an older connection of this process that still has it. A process that
 * only folds the slot has the lock for milliseconds. One that has it longer has taken the slot over: then this
 * returns false.
 */
async function takeAgain(session: Session, slot: number, clock: Clock): Promise<boolean> {
  let othersSinceMs: number | null = null
  while (!(await session.tryLock(LOCK_CLASS.slot, slot))) {
    const nowMs = clock.monotonicMs()
    if (await session.endOlder(LOCK_CLASS.slot, slot)) othersSinceMs = null
    else othersSinceMs ??= nowMs
    if (othersSinceMs !== null && nowMs - othersSinceMs >= FOLDING_PATIENCE_MS) return false
    await sleep(clock, FOLDING_POLL_MS)
  }
  return true
}

/** Folds the slots that have no owner, one after the other. */
async function foldOthers(
  options: SlotOptions,
  current: () => number,
  mayTakeOver: (db: Queryable) => Promise<boolean>,
  isStopping: () => boolean,
): Promise<void> {
  if (!(await mayTakeOver(options.database))) return
  for (const slot of await listSlots(options.database)) {
    if (slot !== current()) await foldAbandonedSlot(options, slot, mayTakeOver, isStopping)
  }
}

/**
 * The lock ends with the transaction, so that the owner can't come back between the two. Whether its owner is dead is asked
 * behind the lock: the server may have been restarted just before it, and then a free lock says nothing.
 */
async function foldAbandonedSlot(
  options: SlotOptions,
  slot: number,
  mayTakeOver: (db: Queryable) => Promise<boolean>,
  isStopping: () => boolean,
): Promise<void> {
  await foldWhole((after) =>
    options.database.transaction(async (tx) => {
      // One folds it all, others may take what they need of it meanwhile.
      if (isStopping() || !(await takeLock(tx, LOCK_CLASS.slotFold, slot))) return null
      if (!(await shareLock(tx, LOCK_CLASS.slot, slot)) || !(await mayTakeOver(tx))) return null
      return await options.fold(tx, slot, null, after)
    }),
  )
}

/**
 * Folds again where the connection was lost, and the slot taken again, meanwhile: a fold under an earlier taking does
 * nothing.
 */
async function underOneTaking(takenAtMs: () => number, fold: () => Promise<void>): Promise<void> {
  let begunUnderMs: number
  do {
    begunUnderMs = takenAtMs()
    await fold()
  } while (begunUnderMs !== takenAtMs())
}

/** Folds part after part, once from the beginning to the end, so that no transaction locks many rows. */
async function foldWhole(foldPart: (after: string | null) => Promise<string | null>): Promise<void> {
  let after: string | null = null
  do after = await foldPart(after)
  while (after !== null)
}

/** Returns whether nobody owns a slot; if so, nobody takes it before the transaction ends. For callers that own no slot. */
export async function isSlotAbandoned(tx: Transaction, slot: number, ownersTime: OwnersTime): Promise<boolean> {
  return (await shareLock(tx, LOCK_CLASS.slot, slot)) && (await ownersTime.isOver(tx))
}

/** Returns the lowest free slot of which everything is folded, now locked; where there is none, the lowest free one. */
async function findFree(
  session: Session,
  { database, listUnfolded }: Pick<SlotOptions, 'database' | 'listUnfolded'>,
  usedToo: boolean,
): Promise<number> {
  const used = new Set(await listSlots(database))
  const unfolded = new Set(await listUnfolded(database))
  const all = Array.from({ length: SLOT_LIMIT }, (_, slot) => slot)
  const byPreference = [...all.filter((slot) => !unfolded.has(slot)), ...all.filter((slot) => unfolded.has(slot))]
  for (const slot of byPreference) {
    if (used.has(slot) && !usedToo) continue
    if (await session.tryLock(LOCK_CLASS.slot, slot)) return slot
  }
  throw new Error(`all ${SLOT_LIMIT} process slots are taken; stop gateway processes that are not needed`)
}
