import { gzipSync } from 'node:zlib'
import type { Attack } from '../attack.ts'
import { rawFlood } from '../flood.ts'

const UNFOLDED_BYTES = 8_000_000

/** A chat request in one long message: 8 MB in 8 KB. */
const BYTES = gzipSync(
  JSON.stringify({
    model: 'svc/sandbox',
    messages: [{ role: 'user', content: 'a '.repeat(UNFOLDED_BYTES / 2 - 100) }],
  }),
)

export const completeGzip: Attack = {
  name: 'complete gzip',
  about: '100 at a time of complete gzip bodies that unfold to 8 MB; without a budget they held 2.6 GB.',
  run: (target, signal) =>
    rawFlood(target, signal, {
      connections: 100,
      head: `Content-Encoding: gzip\r\nContent-Length: ${BYTES.byteLength}`,
      body: () => [BYTES],
    }),
}
