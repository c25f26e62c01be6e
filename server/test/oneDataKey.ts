import type { DataKeys } from '../src/lib/dataKeys.ts'

/** The data keys of a process that has one, which nothing rotates: number 1. */
export function oneDataKey(key: Uint8Array): DataKeys {
  return { take: () => ({ number: 1, key, done: () => {} }), find: () => Promise.resolve(key), peek: () => key }
}
