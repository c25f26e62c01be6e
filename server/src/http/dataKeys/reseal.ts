import type { Database, Transaction } from '../../infra/postgres/database.ts'

/** A value that is sealed, as its room reads it. */
export interface SealedRow {
  /** Where it stands in the order in which they are read. */
  readonly place: string
  readonly number: number
  /** Opens it with the key that it was sealed with and seals it with another. Throws when it can't be opened. */
  reseal(from: Uint8Array, to: Uint8Array): Uint8Array
  /** Puts it into its place if the value is still sealed with the key that it was; says whether. */
  put(tx: Transaction, sealed: Uint8Array, number: number): Promise<boolean>
}

/** A kind of sealed values. */
export interface SealedKind {
  readonly name: string
  /** Returns at most `atMost` values that are not sealed with the key of this number, in the order of their places, after the place `after`. */
  read(database: Database, number: number, after: string | null, atMost: number): Promise<readonly SealedRow[]>
}

/** Values a transaction, of 256 KiB at most each: some milliseconds, and a few MiB of memory. */
const BATCH_ROWS = 16

export interface Resealed {
  resealed: number
  /** Could not be opened; they are left as they are. */
  unopened: number
}

/**
 * Seals every value of a kind anew with the key of `number`, batch by batch. A batch is a transaction, so a run that was killed
 * leaves nothing half done, and the next one goes on with what is left.
 */
export async function resealAll(
  database: Database,
  kind: SealedKind,
  keys: ReadonlyMap<number, Uint8Array>,
  number: number,
  onBatch: (done: Resealed) => void = () => {},
): Promise<Resealed> {
  const to = keys.get(number)
  if (to === undefined) throw new Error(`the data key ${number} is not there to seal with`)
  const done: Resealed = { resealed: 0, unopened: 0 }
  let after: string | null = null
  for (;;) {
    const rows: readonly SealedRow[] = await kind.read(database, number, after, BATCH_ROWS)
    const sealed = rows.flatMap((row) => {
      const bytes = resealed(row, keys.get(row.number), to)
      if (bytes === null) done.unopened += 1
      return bytes === null ? [] : [{ row, bytes }]
    })
    await database.transaction(async (tx) => {
      for (const { row, bytes } of sealed) if (await row.put(tx, bytes, number)) done.resealed += 1
    })
    onBatch(done)
    after = rows.at(-1)?.place ?? null
    if (after === null) return done
  }
}

function resealed(row: SealedRow, from: Uint8Array | undefined, to: Uint8Array): Uint8Array | null {
  if (from === undefined) return null
  try {
    return row.reseal(from, to)
  } catch {
    return null
  }
}
