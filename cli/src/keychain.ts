import type { Keychain } from './system.ts'

/** Of the entries in the keychain. */
const SERVICE = 'tollgate'

/**
 * Opens the system's keychain; null where its package is not installed. On Linux that is the Secret Service: the kernel's own
 * keyring forgets its keys when the machine is started again.
 */
export async function openSystemKeychain(): Promise<Keychain | null> {
  try {
    const { AsyncEntry } = await import('@napi-rs/keyring')
    const entry = (account: string) => new AsyncEntry(SERVICE, account, { linux: { store: 'secret-service' } })
    return {
      get: async (account) => (await entry(account).getPassword()) ?? null,
      set: async (account, secret) => await entry(account).setPassword(secret),
      remove: async (account) => void (await entry(account).deletePassword()),
    }
  } catch {
    return null
  }
}
