import type { Machine } from './machine.ts'

/** Returns a new Idempotency-Key: 32 hex digits. */
export function idempotencyKey({ randomBytes }: Machine): string {
  return Buffer.from(randomBytes(16)).toString('hex')
}
