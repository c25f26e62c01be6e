import type { AttemptCounter } from './attempts.ts'
import { isKnownBrowser, type KnownBrowserDependencies } from './knownBrowser.ts'

export interface SignInLimitDependencies extends Omit<KnownBrowserDependencies, 'random'> {
  readonly attempts: Pick<AttemptCounter, 'byAddress' | 'byEmail' | 'byKnownBrowser'>
}

/** The browser that somebody types a password in. */
export interface TypingBrowser {
  /** The mark of a browser that has signed in before; null: it has none. */
  readonly known: string | null
  /** The client's address. */
  readonly address: string
}

/**
 * Counts an attempt at the password of a mail address; null admits, else the seconds to wait. A browser that has signed in with the
 * address and its present password before has a limit of its own: whatever others try with the address, or from the same place, the
 * person gets in.
 */
export async function waitToSignIn(
  dependencies: SignInLimitDependencies,
  { known, address }: TypingBrowser,
  email: string,
): Promise<number | null> {
  const { attempts } = dependencies
  if (known !== null && (await isKnownBrowser(dependencies, known, email))) return attempts.byKnownBrowser(known, email)
  return (await attempts.byAddress('signIn', address)) ?? (await attempts.byEmail('signIn', email))
}
