import type { Queryable } from '../../../infra/postgres/database.ts'
import type { RandomBytes } from '../../../lib/ids.ts'
import { type Clock, MINUTE_MS } from '../../../lib/time.ts'
import { hashOfSecret } from '../secrets/token.ts'
import { deleteChallenge, deleteExpiredChallenges, replaceChallenge } from './store.ts'

const CHALLENGE_BYTES = 32
/** As long as a browser waits for its person. */
const CHALLENGE_MS = 5 * MINUTE_MS

export interface ChallengeDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly random: RandomBytes
}

/**
 * Draws what a device is to sign, for the browser with this form token. The one that the browser was given before works no more.
 * `userId`: the person who adds a passkey; null: somebody signs in.
 */
export async function drawChallenge(
  { database, clock, random }: ChallengeDependencies,
  formToken: string,
  userId: string | null,
): Promise<Uint8Array> {
  const challenge = random(CHALLENGE_BYTES)
  await replaceChallenge(database, { browser: hashOfSecret(formToken), challenge, userId }, clock.now() + CHALLENGE_MS)
  return challenge
}

/** Uses up the challenge of a browser; null when it has none for this purpose, or none that still works. */
export function takeChallenge(
  { database, clock }: Pick<ChallengeDependencies, 'database' | 'clock'>,
  formToken: string,
  userId: string | null,
): Promise<Uint8Array | null> {
  return deleteChallenge(database, hashOfSecret(formToken), userId, clock.now())
}

/** Removes at most `atMost` challenges that have expired; returns how many. */
export function sweepChallenges(
  { database, clock }: Pick<ChallengeDependencies, 'database' | 'clock'>,
  atMost: number,
): Promise<number> {
  return deleteExpiredChallenges(database, clock.now(), atMost)
}
