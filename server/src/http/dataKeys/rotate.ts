/**
 * The steps of a rotation. Each is one transaction that looks again at what it depends on, so that any number of operators and
 * servers may take them at once, in any order, and a step that was broken off is taken again.
 */

import type { Database, Queryable, Transaction } from '../../infra/postgres/database.ts'
import type { Clock } from '../../lib/time.ts'
import { DataKeyFailure, type KeyRing, type RingSource } from './ring.ts'
import {
  type DataKeyRow,
  deleteHolder,
  type HolderRow,
  insertDataKey,
  listDataKeys,
  listHolders,
  lockDataKeys,
  notifyDataKeys,
  setDataKeyState,
} from './store.ts'

export interface RotationDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly ring: RingSource
  /** Returns whether nobody owns a slot; stays so until the end of the transaction. */
  readonly isAbandoned: (tx: Transaction, slot: number) => Promise<boolean>
  /** For each kind of sealed values, whether any is sealed with the key of this number. */
  readonly isSealedWith: readonly ((db: Queryable, number: number) => Promise<boolean>)[]
}

/** Slots of processes that keep a step from being taken; none: it was taken. */
export type WaitingFor = readonly number[]

/**
 * Offers a new key to all processes: one that this process has and the database does not know, or where there is none, one that
 * is made now. Returns the key that is offered; while an earlier rotation is not finished, the key of that.
 */
export function offerKey({ database, clock, ring: source }: RotationDependencies): Promise<DataKeyRow> {
  return database.transaction(async (tx) => {
    await lockDataKeys(tx)
    const rows = await listDataKeys(tx)
    const ring = await source.read()
    refuseLack(source, ring, rows)
    const offered = rows.find(({ state }) => state === 'offered')
    if (offered !== undefined) return offered
    // One rotation at a time: this one is gone on with.
    const sealing = rows.find(({ state }) => state === 'sealing')
    if (sealing !== undefined && rows.some(({ state }) => state === 'opening')) return sealing
    const fingerprint = await newKey(source, ring, rows)
    const number = Math.max(0, ...rows.map((row) => row.number)) + 1
    // A database without keys has no process yet either.
    const key: DataKeyRow = { number, fingerprint, state: rows.length === 0 ? 'sealing' : 'offered' }
    await insertDataKey(tx, key, clock.now())
    await notifyDataKeys(tx)
    return key
  })
}

function refuseLack(source: RingSource, ring: KeyRing, rows: readonly DataKeyRow[]): void {
  const lacking = rows.find(({ fingerprint, state }) => state !== 'dropped' && !ring.has(fingerprint))
  if (lacking === undefined) return
  const print = lacking.fingerprint.slice(0, 8)
  throw new DataKeyFailure(
    `${source.name}: the data key with the fingerprint ${print} is missing; add it there, then go on.`,
  )
}

async function newKey(source: RingSource, ring: KeyRing, rows: readonly DataKeyRow[]): Promise<string> {
  const unknownOf = (keys: KeyRing) => [...keys.keys()].filter((each) => !rows.some((row) => row.fingerprint === each))
  let unknown = unknownOf(ring)
  if (unknown.length === 0 && source.add !== undefined) unknown = unknownOf(await source.add())
  const [fingerprint, ...more] = unknown
  if (fingerprint !== undefined && more.length === 0) return fingerprint
  throw new DataKeyFailure(
    fingerprint === undefined
      ? `${source.name}: there is no new data key; set it to OLD,NEW (NEW: "openssl rand -hex 32") for every process, ` +
          'restart them one after the other, and run this again.'
      : `${source.name}: there are several new data keys; leave one of them.`,
  )
}

/** Brings the offered key into use if every living process has it. Returns the slots of those that have not. */
export function activateKey(dependencies: RotationDependencies): Promise<WaitingFor> {
  return dependencies.database.transaction(async (tx) => {
    await lockDataKeys(tx)
    const rows = await listDataKeys(tx)
    const offered = rows.find(({ state }) => state === 'offered')
    if (offered === undefined) return []
    const waiting = await living(tx, dependencies, ({ held }) => !held.includes(offered.number))
    if (waiting.length > 0) return waiting
    const sealing = rows.find(({ state }) => state === 'sealing')
    if (sealing !== undefined) await setDataKeyState(tx, sealing.number, 'opening')
    await setDataKeyState(tx, offered.number, 'sealing')
    await notifyDataKeys(tx)
    return []
  })
}

/** Returns the slots of living processes that may still seal with an older key. */
export function waitingToSeal(dependencies: RotationDependencies): Promise<WaitingFor> {
  return dependencies.database.transaction(async (tx) => {
    const sealing = (await listDataKeys(tx)).find(({ state }) => state === 'sealing')
    return living(tx, dependencies, ({ seals }) => sealing !== undefined && seals < sealing.number)
  })
}

/**
 * Drops the keys that nothing is sealed with and no living process may seal with, and removes them from the ring of this
 * process. Returns the keys that stay because something is sealed with them.
 */
export async function dropKeys(dependencies: RotationDependencies): Promise<readonly DataKeyRow[]> {
  const { database, ring } = dependencies
  // First without the lock: while it is held, or waited for, no charge is posted whose answer is kept.
  const opening = await listOpening(database)
  const needed = await thoseNeeded(database, opening, dependencies)
  if (opening.length > 0 && needed.length === opening.length) return needed
  const left = await database.transaction(async (tx) => {
    await lockDataKeys(tx)
    const left: DataKeyRow[] = []
    for (const row of await listOpening(tx)) {
      const users = await living(tx, dependencies, ({ seals }) => seals <= row.number)
      const isNeeded = users.length > 0 || (await thoseNeeded(tx, [row], dependencies)).length > 0
      if (isNeeded) left.push(row)
      else await setDataKeyState(tx, row.number, 'dropped')
    }
    return left
  })
  // Only once it is certain that nothing needs them. The lock keeps others from writing the file at the same time.
  await database.transaction(async (tx) => {
    await lockDataKeys(tx)
    const dropped = (await listDataKeys(tx)).filter(({ state }) => state === 'dropped')
    if (dropped.length > 0) await ring.remove?.(new Set(dropped.map(({ fingerprint }) => fingerprint)))
  })
  return left
}

async function listOpening(db: Queryable): Promise<DataKeyRow[]> {
  return (await listDataKeys(db)).filter(({ state }) => state === 'opening')
}

/** Returns those keys that something is sealed with. */
async function thoseNeeded(
  db: Queryable,
  keys: readonly DataKeyRow[],
  { isSealedWith }: RotationDependencies,
): Promise<DataKeyRow[]> {
  const needed: DataKeyRow[] = []
  for (const key of keys) {
    for (const isSealed of isSealedWith) {
      if (!(await isSealed(db, key.number))) continue
      needed.push(key)
      break
    }
  }
  return needed
}

/** Returns the slots of living processes for which `isWaited` holds, and deletes the rows of dead ones. */
async function living(
  tx: Transaction,
  { isAbandoned }: RotationDependencies,
  isWaited: (holder: HolderRow) => boolean,
): Promise<WaitingFor> {
  const waiting: number[] = []
  for (const holder of await listHolders(tx)) {
    if (!isWaited(holder)) continue
    if (await isAbandoned(tx, holder.slot)) await deleteHolder(tx, holder.slot)
    else waiting.push(holder.slot)
  }
  return waiting
}
