/** The bodies of kept answers, encrypted: a small one whole, a large one piece by piece, so that no replay needs all of it. */

import type { RandomBytes } from '../../lib/ids.ts'
import { SEAL_BYTES, type SealedThing, seal, unseal } from '../../lib/seal.ts'
import { PIECE_BYTES } from './answer.ts'

const SEALED_PIECE_BYTES = PIECE_BYTES + SEAL_BYTES

/** A piece has its place in its name: nobody can swap, drop or repeat pieces unnoticed. */
export function thingOf(attempt: string, bodyBytes: number, index: number): SealedThing {
  const name = bodyBytes <= PIECE_BYTES ? attempt : `${attempt} ${index} of ${bodyBytes}`
  return { kind: 'tollgate kept answer', name }
}

/** Returns of how many pieces a body of so many bytes is; an empty one is of one. */
export function piecesOf(bodyBytes: number): number {
  return Math.max(1, Math.ceil(bodyBytes / PIECE_BYTES))
}

/** Returns how many bytes all encrypted pieces of a body have. */
export function sealedBytesOf(bodyBytes: number): number {
  return bodyBytes + piecesOf(bodyBytes) * SEAL_BYTES
}

/** Encrypts the pieces of the body of an attempt's answer, one each time it is asked. */
export function* sealPieces(
  dataKey: Uint8Array,
  attempt: string,
  body: Uint8Array,
  random: RandomBytes,
): Generator<Uint8Array> {
  for (let index = 0; index < piecesOf(body.byteLength); index += 1) {
    const piece = body.subarray(index * PIECE_BYTES, (index + 1) * PIECE_BYTES)
    yield seal(dataKey, thingOf(attempt, body.byteLength, index), piece, random)
  }
}

/** Returns where a piece's encrypted bytes are among those of the body: the first and the last, both included. */
export function rangeOf(bodyBytes: number, index: number): { readonly first: number; readonly last: number } {
  const first = index * SEALED_PIECE_BYTES
  return { first, last: Math.min(first + SEALED_PIECE_BYTES, sealedBytesOf(bodyBytes)) - 1 }
}

/** Decrypts a piece of a body of so many bytes. Throws when a bit of it is another. */
export function unsealPiece(
  dataKey: Uint8Array,
  attempt: string,
  bodyBytes: number,
  index: number,
  sealed: Uint8Array,
): Uint8Array<ArrayBuffer> {
  return unseal(dataKey, thingOf(attempt, bodyBytes, index), sealed)
}
