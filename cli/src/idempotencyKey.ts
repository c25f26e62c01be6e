import type { System } from './system.ts'

/** Returns a new Idempotency-Key: 32 hex digits. */
export function idempotencyKey({ randomBytes }: System): string {
  return Buffer.from(randomBytes(16)).toString('hex')
}
