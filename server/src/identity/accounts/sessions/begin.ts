import type { Transaction } from '../../../infra/postgres/database.ts'
import { type RandomBytes, uuidV7 } from '../../../lib/ids.ts'
import type { Clock } from '../../../lib/time.ts'
import { drawSecret, hashToken } from '../secrets/token.ts'
import { insertSession } from './store.ts'

/** Of the browser's own word for itself, which may be any text. */
const USER_AGENT_CHARACTERS_MOST = 256

export interface BeginDependencies {
  readonly clock: Clock
  readonly random: RandomBytes
  /** How long a session lasts. */
  readonly sessionMs: number
}

/** Begins a session of a person who was known by other means than a password; returns the token for the cookie, stored nowhere. */
export async function beginSession(
  tx: Transaction,
  { clock, random, sessionMs }: BeginDependencies,
  { userId, address, userAgent }: { readonly userId: string; readonly address: string; readonly userAgent: string },
): Promise<string> {
  const token = drawSecret(random)
  const nowMs = clock.now()
  await insertSession(tx, {
    id: uuidV7(nowMs, random),
    tokenHash: hashToken(token),
    userId,
    createdAtMs: nowMs,
    expiresAtMs: nowMs + sessionMs,
    address,
    userAgent: userAgent.slice(0, USER_AGENT_CHARACTERS_MOST),
  })
  return token
}
