import { expect, test } from 'bun:test'
import { systemRandom } from '../../infra/random.ts'
import { type KeptAnswer, PIECE_BYTES } from './answer.ts'
import { sealPieces, unsealPiece } from './sealedBody.ts'

const random = systemRandom()
const key = random(32)

function opened(body: KeptAnswer['body']): Uint8Array[] {
  const sealed = [...sealPieces(key, 'attempt', body, random)]
  return sealed.map((piece, index) => unsealPiece(key, 'attempt', body.byteLength, index, piece))
}

test.each([1, 1_000, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES, 600_000])(
  'a body of %d bytes that is written while it is kept has the pieces of one in memory',
  (bytes) => {
    const whole = new Uint8Array(bytes).map((_, index) => index % 251)
    for (const blockBytes of [bytes, 999, 300_000]) {
      const body = {
        byteLength: bytes,
        *blocks() {
          for (let at = 0; at < bytes; at += blockBytes) yield whole.subarray(at, at + blockBytes)
        },
      }
      expect(opened(body)).toEqual(opened(whole))
    }
    expect(Buffer.concat(opened(whole)).equals(whole)).toBe(true)
  },
)

test('an empty body is one piece', () => {
  expect(opened(new Uint8Array())).toEqual([new Uint8Array()])
})
