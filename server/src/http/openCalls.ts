/** The calls under way in this process, by the key that they run on: they end with it (K6). */

import type { ApiKeyPrincipal } from './principal.ts'

/** A key with calls under way. */
interface OpenKey {
  readonly id: string
  /** Milliseconds since the epoch, as it was last heard; null: never. */
  readonly expiresAtMs: number | null
}

export interface OpenCalls {
  /** Registers a call; `end` is called at most once, when its key may not be used any more. Returns the end of that. */
  add(key: Pick<ApiKeyPrincipal, 'id' | 'expiresAtMs'>, end: () => void): () => void
  keys(): readonly OpenKey[]
  /** The key expires then; null: never. Nothing happens where no call is under way on it. */
  setExpiry(keyId: string, expiresAtMs: number | null): void
  /** Ends every call that is under way on a key. */
  endKey(keyId: string): void
}

/**
 * The calls of this process. One entry for each key with a call under way, with a set of its own: one long-lived set of all calls
 * cost each a tenth of its processor time, since garbage collection pays for young objects in old sets.
 */
export function createOpenCalls(): OpenCalls {
  const open = new Map<string, { readonly id: string; expiresAtMs: number | null; readonly calls: Set<() => void> }>()
  return {
    add({ id, expiresAtMs }, end) {
      let key = open.get(id)
      if (key === undefined) {
        key = { id, expiresAtMs, calls: new Set() }
        open.set(id, key)
      }
      const { calls } = key
      calls.add(end)
      return () => {
        if (calls.delete(end) && calls.size === 0 && open.get(id)?.calls === calls) open.delete(id)
      }
    },
    keys: () => [...open.values()],
    setExpiry(keyId, expiresAtMs) {
      const key = open.get(keyId)
      if (key !== undefined) key.expiresAtMs = expiresAtMs
    },
    endKey(keyId) {
      const key = open.get(keyId)
      open.delete(keyId)
      for (const end of key?.calls ?? []) end()
    },
  }
}
