import type { ProviderFailure } from '../src/providers/dialect/spec.ts'

/** Returns the failure that work for a provider ends with; throws where it does not fail. */
export async function providerFailureOf(work: Promise<unknown>): Promise<ProviderFailure> {
  return work.then(
    () => Promise.reject(new Error('it did not fail')),
    (error: ProviderFailure) => error,
  )
}
