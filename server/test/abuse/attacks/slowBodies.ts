import type { Attack } from '../attack.ts'
import { rawFlood } from '../flood.ts'

const PIECE_BYTES = 400
const PIECE_MS = 20
const BODY_BYTES = 8_000_000

/** 20 kB a second: no idle timeout ever cuts these. */
export const slowBodies: Attack = {
  name: 'slow bodies',
  about: '200 bodies of 8 MB at 20 kB a second each; before there was a deadline none of them ever ended.',
  run: (target, signal) =>
    rawFlood(target, signal, {
      connections: 200,
      head: `Content-Length: ${BODY_BYTES}`,
      async *body() {
        yield '{"messages":"'
        for (let sent = 0; sent < BODY_BYTES - 100; sent += PIECE_BYTES) {
          await new Promise((resolve) => setTimeout(resolve, PIECE_MS))
          yield 'x'.repeat(PIECE_BYTES)
        }
      },
    }),
}
