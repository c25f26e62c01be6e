/** Where the bodies of kept answers are: small ones in their rows, large ones among the artifacts. All are encrypted. */

import { type Artifacts, readArtifactRange } from '../../infra/artifacts.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import type { DataKeys, SealingKey } from '../../lib/dataKeys.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import { type BodyInPieces, type KeptAnswer, PIECE_BYTES } from './answer.ts'
import { piecesOf, rangeOf, sealedBytesOf, sealPieces, unsealPiece } from './sealedBody.ts'
import type { KeptSpace } from './space.ts'
import { type AttemptRow, readBodyRange } from './store.ts'

export interface KeptBodiesDependencies {
  readonly database: Queryable
  readonly random: RandomBytes
  readonly log: Log
  readonly dataKeys: DataKeys
  readonly artifacts: Artifacts
  readonly space: Pick<KeptSpace, 'failed'>
}

type KeptRow = Pick<AttemptRow, 'attempt' | 'body' | 'body_bytes' | 'is_in_row' | 'data_key'>

export interface KeptBodies {
  /** A body of so many encrypted bytes is read with its row. */
  readonly bytesInMemory: number
  /**
   * Encrypts a body with `key` and writes a large one to the store. Returns the bytes for the row; null when they are a file, there for
   * good. A store that takes none leaves it to the row, and says that it is short, so that few follow. Never rejects.
   */
  keep(attempt: string, body: KeptAnswer['body'], key: SealingKey): Promise<Uint8Array | null>
  /** Takes the data key that bodies are encrypted with now. */
  takeKey(): SealingKey
  /** Returns the body of an attempt that was answered. Rejects when this process lacks the data key that the body is sealed with. */
  open(row: KeptRow): Promise<Uint8Array<ArrayBuffer> | BodyInPieces>
}

export function createKeptBodies(dependencies: KeptBodiesDependencies): KeptBodies {
  const { database, random, log, dataKeys, artifacts, space } = dependencies

  /** Bytes of an encrypted body, from `first` to `last`. */
  const readRange = async (attempt: string, isInRow: boolean, first: number, last: number): Promise<Uint8Array> => {
    const bytes = isInRow
      ? await readBodyRange(database, attempt, first, last)
      : await readArtifactRange(artifacts, attempt, first, last)
    if (bytes !== null) return bytes
    throw new Error(`the kept answer ${attempt} is gone; if it is a file, do all machines keep theirs in one place?`)
  }
  return {
    bytesInMemory: sealedBytesOf(PIECE_BYTES),
    takeKey: () => dataKeys.take(),
    async keep(attempt, body, { key }) {
      const pieces = () => sealPieces(key, attempt, body, random)
      if (body.byteLength > PIECE_BYTES) {
        try {
          await artifacts.write(attempt, inTurn(pieces()), sealedBytesOf(body.byteLength))
          return null
        } catch (error) {
          space.failed()
          log.warn({ err: error }, 'an answer could not be kept as a file; the database keeps it')
        }
      }
      return new Uint8Array(Buffer.concat([...pieces()]))
    },
    async open({ attempt, body, body_bytes, is_in_row: isInRow, data_key }) {
      const bodyBytes = Number(body_bytes)
      const key = await dataKeys.find(data_key)
      if (body !== null) return unsealPiece(key, attempt, bodyBytes, 0, body)
      return {
        pieces: piecesOf(bodyBytes),
        async read(index) {
          const { first, last } = rangeOf(bodyBytes, index)
          return unsealPiece(key, attempt, bodyBytes, index, await readRange(attempt, isInRow, first, last))
        },
      }
    },
  }
}

async function* inTurn(pieces: Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* pieces
}
