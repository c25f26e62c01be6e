import type { Database } from '../../../infra/postgres/database.ts'
import { type BeginDependencies, beginSession } from '../sessions/begin.ts'
import { fromBase64Url, readSignIn, type SignInAnswer } from './answer.ts'
import { type ChallengeDependencies, drawChallenge, takeChallenge } from './challenge.ts'
import { type RelyingParty, signInOptions, userIdOf } from './options.ts'
import { selectPasskeyByCredential, updatePasskeyUse } from './store.ts'
import type { PasskeyVerifier } from './verifier.ts'

export interface PasskeySignInDependencies extends ChallengeDependencies, BeginDependencies {
  readonly database: Database
  readonly verifier: PasskeyVerifier
  readonly relyingParty: () => RelyingParty
}

/** Returns the options with which a browser asks a device to sign a challenge. They are the same for everybody. */
export async function askToSignIn(dependencies: PasskeySignInDependencies, formToken: string): Promise<object> {
  return signInOptions(dependencies.relyingParty(), await drawChallenge(dependencies, formToken, null))
}

/**
 * Begins a session by the answer of a device; returns the token for the cookie. Null when the challenge works no more, the passkey
 * is unknown or was removed, or the signature is not its own.
 */
export async function signInByPasskey(
  dependencies: PasskeySignInDependencies,
  { formToken, ...browser }: { readonly formToken: string; readonly address: string; readonly userAgent: string },
  answerText: string,
): Promise<string | null> {
  const { database, clock, verifier, relyingParty } = dependencies
  const challenge = await takeChallenge(dependencies, formToken, null)
  const answer = readSignIn(answerText)
  if (challenge === null || answer === null) return null
  const passkey = await selectPasskeyByCredential(database, fromBase64Url(answer.id))
  if (passkey === null || !isOf(passkey.userId, answer)) return null
  const signCount = await verifier.signIn(relyingParty(), answer, challenge, passkey)
  if (signCount === null) return null
  return database.transaction(async (tx) =>
    (await updatePasskeyUse(tx, passkey.id, signCount, clock.now()))
      ? beginSession(tx, dependencies, { userId: passkey.userId, ...browser })
      : null,
  )
}

/** Returns whether the device means this person. Where it does not say, the passkey alone tells. */
function isOf(userId: string, { response: { userHandle } }: SignInAnswer): boolean {
  return userHandle === null || userIdOf(userHandle) === userId
}
