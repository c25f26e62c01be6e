import { randomFillSync } from 'node:crypto'
import type { RandomBytes } from '../lib/ids.ts'

// One system call fills this many bytes; a call for an id takes ten of them.
const POOL_BYTES = 8_192

/** Cryptographically secure random bytes, drawn from the system in large pieces. Each byte is handed out once. */
export function systemRandom(): RandomBytes {
  const pool = new Uint8Array(POOL_BYTES)
  let used = POOL_BYTES
  return (length) => {
    if (length > POOL_BYTES) return randomFillSync(new Uint8Array(length))
    if (used + length > POOL_BYTES) {
      randomFillSync(pool)
      used = 0
    }
    const bytes = pool.slice(used, used + length)
    pool.fill(0, used, used + length)
    used += length
    return bytes
  }
}
