import type { Database, Transaction } from '../../infra/postgres/database.ts'
import type { DataKeys, SealingKey } from '../../lib/dataKeys.ts'
import type { Log } from '../../lib/log.ts'
import type { Clock } from '../../lib/time.ts'
import { DATA_KEY_FILE, DataKeyFailure, type KeyRing, type RingSource } from './ring.ts'
import { type DataKeyRow, deleteHolder, insertDataKey, listDataKeys, lockDataKeys, putHolder } from './store.ts'

export interface DataKeysOptions {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  /** This process's slot, which changes where it was lost: its keys count while it holds the slot's lock. */
  readonly slot: () => number
  readonly ring: RingSource
}

/** The data keys of a process, which it has told the others of. */
export interface OpenDataKeys extends DataKeys {
  /** Reads its keys and their states anew and notes what it holds. Rejects when a key that values need is missing. */
  refresh(): Promise<void>
  /** The same where something has changed, without a lock where nothing has. */
  follow(): Promise<void>
  /** Says that this process opens and seals nothing any more. */
  close(): Promise<void>
}

/**
 * Takes up the installation's data keys: notes them under this process's slot, in the transaction that looks which keys are
 * needed, so that no key comes into use that this process does not have. Throws {@link DataKeyFailure} when one is missing.
 */
export async function openDataKeys(options: DataKeysOptions): Promise<OpenDataKeys> {
  const keys = new ProcessKeys(options)
  await keys.refresh()
  return keys
}

class ProcessKeys implements OpenDataKeys {
  private readonly options: DataKeysOptions
  private readonly known = new Map<number, Uint8Array>()
  private sealing = 0
  /** How many values of each key are sealed and not committed yet. */
  private readonly inUse = new Map<number, number>()
  /** All that the last note depended on. */
  private noted = ''
  /** One note at a time, so that an earlier one never overwrites a later one. */
  private last: Promise<unknown> = Promise.resolve()

  constructor(options: DataKeysOptions) {
    this.options = options
  }

  take(): SealingKey {
    const number = this.sealing
    const key = this.known.get(number)
    if (key === undefined) throw new DataKeyFailure(`the data key ${number} is not known to this process.`)
    this.inUse.set(number, (this.inUse.get(number) ?? 0) + 1)
    let isDone = false
    const done = () => {
      if (!isDone) this.release(number)
      isDone = true
    }
    return { number, key, done }
  }

  async find(number: number): Promise<Uint8Array> {
    if (!this.known.has(number)) await this.refresh()
    const key = this.known.get(number)
    if (key !== undefined) return key
    throw new DataKeyFailure(`${this.options.ring.name}: the data key number ${number} is missing; add it there.`)
  }

  peek(number: number): Uint8Array | null {
    return this.known.get(number) ?? null
  }

  refresh(): Promise<void> {
    const next = this.last.then(() => this.note())
    this.last = next.catch(() => {})
    return next
  }

  async follow(): Promise<void> {
    const ring = await this.options.ring.read()
    const rows = await listDataKeys(this.options.database)
    if (this.stateOf(ring, rows, this.options.slot()) !== this.noted) await this.refresh()
  }

  async close(): Promise<void> {
    await this.last
    await deleteHolder(this.options.database, this.options.slot())
  }

  private async note(): Promise<void> {
    const { database } = this.options
    const slot = this.options.slot()
    const ring = await this.options.ring.read()
    this.noted = await database.transaction(async (tx) => {
      await lockDataKeys(tx)
      const rows = await keysOf(tx, ring, this.options)
      const held: number[] = []
      for (const { number, fingerprint, state } of rows) {
        const key = state === 'dropped' ? undefined : ring.get(fingerprint)
        if (key === undefined) continue
        this.known.set(number, key)
        held.push(number)
      }
      // Before it is noted: from here on nothing new is sealed with another key.
      this.sealing = rows.find(({ state }) => state === 'sealing')?.number ?? this.sealing
      await putHolder(tx, { slot, held, seals: this.oldest() })
      return this.stateOf(ring, rows, slot)
    })
  }

  /** Number of the oldest key that this process may still commit a value under. */
  private oldest(): number {
    return Math.min(this.sealing, ...this.inUse.keys())
  }

  /** All that a note depends on, as text. */
  private stateOf(ring: KeyRing, rows: readonly DataKeyRow[], slot: number): string {
    const states = rows.map(({ number, state }) => [number, state])
    return JSON.stringify([[...ring.keys()], states, this.oldest(), slot])
  }

  private release(number: number): void {
    const left = (this.inUse.get(number) ?? 1) - 1
    if (left > 0) this.inUse.set(number, left)
    else this.inUse.delete(number)
    if (left > 0 || number === this.sealing) return
    // The others wait for this process to have done with an old key.
    this.refresh().catch((error: unknown) =>
      this.options.log.warn({ err: error }, 'the data keys in use could not be noted yet'),
    )
  }
}

/** Returns the keys of the database; the first start notes its own. Throws when the ring lacks one that values need. */
async function keysOf(tx: Transaction, ring: KeyRing, { clock, log, ring: source }: DataKeysOptions) {
  const rows = await listDataKeys(tx)
  const [own] = ring.keys()
  if (rows.length === 0 && own !== undefined) {
    const first: DataKeyRow = { number: 1, fingerprint: own, state: 'sealing' }
    await insertDataKey(tx, first, clock.now())
    return [first]
  }
  for (const { fingerprint, state } of rows) {
    if (ring.has(fingerprint) || state === 'dropped') continue
    if (state !== 'offered') throw new DataKeyFailure(missing(source.name, ring, fingerprint))
    const advice = 'it comes into use only when every process has it; add it where this process has its keys'
    log.warn({ fingerprint: fingerprint.slice(0, 8), keys: source.name }, `a new data key is missing here: ${advice}`)
  }
  return rows
}

function missing(name: string, ring: KeyRing, fingerprint: string): string {
  const own = [...ring.keys()].map((each) => each.slice(0, 8)).join(', ')
  return (
    `${name}: this data key (fingerprint ${own}) is not the one that this database was written with ` +
    `(${fingerprint.slice(0, 8)}), or not all of them; set TOLLGATE_DATA_KEY to that one, beside the one that is there while keys rotate, ` +
    `or put its file ${DATA_KEY_FILE} back into the data directory.`
  )
}
