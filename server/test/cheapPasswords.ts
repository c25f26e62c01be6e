import { randomBytes, scryptSync } from 'node:crypto'
import type { PasswordHash } from '../src/identity/accounts/secrets/betterAuth.ts'

const KEY_BYTES = 64
/** A thousandth of what the server takes. */
const COST = { N: 16, r: 16, p: 1 }

const keyOf = (password: string, salt: string) => scryptSync(password, salt, KEY_BYTES, COST).toString('hex')

/**
 * Hashes passwords as the server does, at hardly any cost: hundreds of tests sign in, and each real hash takes 60 ms of a processor. Tests
 * that start the server as a process have the real one.
 */
export const CHEAP_PASSWORDS: PasswordHash = {
  async hash(password) {
    const salt = randomBytes(16).toString('hex')
    return `${salt}:${keyOf(password, salt)}`
  },
  async verify({ hash, password }) {
    const [salt = '', key] = hash.split(':')
    return keyOf(password, salt) === key
  },
}
