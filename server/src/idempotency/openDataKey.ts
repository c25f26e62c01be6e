import { readOrWriteOnce } from '../io/folder.ts'
import type { Database } from '../io/postgres/database.ts'
import { type RandomBytes, toHex } from '../kernel/ids.ts'
import { DATA_KEY_BYTES, keyFingerprint } from '../kernel/seal.ts'
import type { Secret } from '../kernel/secret.ts'
import type { Clock } from '../kernel/time.ts'
import { noteDataKey } from './store.ts'

/** Beneath the data directory. */
const FILE_NAME = 'data.key'

const HEX = /^[0-9a-f]{64}$/i

/** The data key is missing, malformed, or not the one that the database was written with. The message is one sentence. */
export class DataKeyFailure extends Error {
  override readonly name = 'DataKeyFailure'
}

export interface DataKeyOptions {
  readonly database: Database
  /** Absolute. */
  readonly dataDirectory: string
  /** 64 hex digits, from the operator's settings; null: the file beneath the data directory, made where there is none. */
  readonly given: Secret | null
  readonly clock: Clock
  readonly random: RandomBytes
}

/**
 * The installation's data key, 32 bytes: what is kept for customers is encrypted with it. Throws {@link DataKeyFailure}
 * when it is not the key of this database.
 */
export async function openDataKey(options: DataKeyOptions): Promise<Uint8Array> {
  const { database, dataDirectory, given, clock, random } = options
  const make = () => `${toHex(random(DATA_KEY_BYTES))}\n`
  const found =
    given === null
      ? await readOrWriteOnce(dataDirectory, FILE_NAME, toHex(random(8)), make)
      : { text: given.reveal(), path: 'TOLLGATE_DATA_KEY' }
  const text = found.text.trim()
  if (!HEX.test(text)) {
    throw new DataKeyFailure(`${found.path}: the data key must be 64 hex digits; put the right one there.`)
  }
  const dataKey = new Uint8Array(Buffer.from(text, 'hex'))
  const own = keyFingerprint(dataKey)
  const noted = await noteDataKey(database, own, clock.now())
  if (noted === own) return dataKey
  throw new DataKeyFailure(
    `${found.path}: this data key (fingerprint ${own.slice(0, 8)}) is not the one that this database was written with ` +
      `(${noted.slice(0, 8)}); set TOLLGATE_DATA_KEY to that one, or put its file ${FILE_NAME} back into the data directory.`,
  )
}
