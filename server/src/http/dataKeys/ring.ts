/** The data keys that a process was given: those of `TOLLGATE_DATA_KEY`, or of the file beneath the data directory. */

import { join } from 'node:path'
import { readOrWriteOnce, writeSecretFile } from '../../infra/folder.ts'
import { type RandomBytes, toHex } from '../../lib/ids.ts'
import { DATA_KEY_BYTES, keyFingerprint } from '../../lib/seal.ts'
import type { Secret } from '../../lib/secret.ts'

/** Beneath the data directory: a key a line, 64 hex digits each. */
export const DATA_KEY_FILE = 'data.key'
const HEX = /^[0-9a-f]{64}$/i
/** Two are needed while keys rotate; more are left from rotations that were never finished. */
const KEYS_MOST = 8

/** A data key is missing or malformed. The message is one sentence and says what to do. */
export class DataKeyFailure extends Error {
  override readonly name = 'DataKeyFailure'
}

/** Keys by fingerprint, in the order in which they were given. */
export type KeyRing = ReadonlyMap<string, Uint8Array>

export interface RingSource {
  /** Names the source in messages. */
  readonly name: string
  /** Reads the keys anew. Throws {@link DataKeyFailure}. */
  read(): Promise<KeyRing>
  /** Makes a key and adds it; absent where the operator has to. */
  readonly add?: () => Promise<KeyRing>
  /** Removes keys by their fingerprints; absent where the operator has to. */
  readonly remove?: (fingerprints: ReadonlySet<string>) => Promise<void>
}

/** Reads keys that are separated by commas or blanks. */
export function parseRing(text: string, name: string): KeyRing {
  const keys = text.split(/[\s,]+/).filter((part) => part !== '')
  if (keys.length === 0 || keys.length > KEYS_MOST || !keys.every((key) => HEX.test(key))) {
    throw new DataKeyFailure(
      `${name}: the data key must be 64 hex digits, or up to ${KEYS_MOST} such keys while they rotate; put the right one there.`,
    )
  }
  return new Map(keys.map((key) => new Uint8Array(Buffer.from(key, 'hex'))).map((key) => [keyFingerprint(key), key]))
}

export interface RingOptions {
  /** Absolute. */
  readonly dataDirectory: string
  /** From the operator's settings; null: the file, made where there is none. */
  readonly given: Secret | null
  readonly random: RandomBytes
}

/** Returns where this installation's keys come from. */
export function ringSource({ dataDirectory, given, random }: RingOptions): RingSource {
  if (given !== null) {
    const name = 'TOLLGATE_DATA_KEY'
    return { name, read: async () => parseRing(given.reveal(), name) }
  }
  const path = join(dataDirectory, DATA_KEY_FILE)
  const newKey = () => toHex(random(DATA_KEY_BYTES))
  const read = async () => {
    const { text } = await readOrWriteOnce(dataDirectory, DATA_KEY_FILE, toHex(random(8)), () => `${newKey()}\n`)
    return parseRing(text, path)
  }
  const write = (ring: KeyRing) => {
    const text = [...ring.values()].map((key) => `${toHex(key)}\n`).join('')
    return writeSecretFile(path, text)
  }
  return {
    name: path,
    read,
    async add() {
      const key = new Uint8Array(Buffer.from(newKey(), 'hex'))
      const ring = new Map([...(await read()), [keyFingerprint(key), key]])
      await write(ring)
      return ring
    },
    async remove(fingerprints) {
      const ring = await read()
      const kept = new Map([...ring].filter(([fingerprint]) => !fingerprints.has(fingerprint)))
      if (kept.size < ring.size && kept.size > 0) await write(kept)
    },
  }
}
