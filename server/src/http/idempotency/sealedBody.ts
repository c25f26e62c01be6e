/** The bodies of kept answers, encrypted: a small one whole, a large one piece by piece, so that no replay needs all of it. */

import type { RandomBytes } from '../../lib/ids.ts'
import { SEAL_BYTES, type SealedThing, seal, unseal } from '../../lib/seal.ts'
import { type KeptAnswer, PIECE_BYTES, type WrittenBody } from './answer.ts'

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
  body: KeptAnswer['body'],
  random: RandomBytes,
): Generator<Uint8Array> {
  let index = 0
  for (const piece of body instanceof Uint8Array ? cutBody(body) : writePieces(body)) {
    yield seal(dataKey, thingOf(attempt, body.byteLength, index), piece, random)
    index += 1
  }
}

function* cutBody(body: Uint8Array): Generator<Uint8Array> {
  for (let index = 0; index < piecesOf(body.byteLength); index += 1) {
    yield body.subarray(index * PIECE_BYTES, (index + 1) * PIECE_BYTES)
  }
}

/** Each piece is in the same memory as the one before. */
function* writePieces(body: WrittenBody): Generator<Uint8Array> {
  const piece = new Uint8Array(Math.min(PIECE_BYTES, body.byteLength))
  let filled = 0
  for (const block of body.blocks()) {
    for (let at = 0; at < block.byteLength; ) {
      const part = block.subarray(at, at + piece.byteLength - filled)
      piece.set(part, filled)
      filled += part.byteLength
      at += part.byteLength
      if (filled < piece.byteLength) continue
      yield piece
      filled = 0
    }
  }
  if (filled > 0) yield piece.subarray(0, filled)
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
