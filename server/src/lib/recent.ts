/**
 * A bounded map that forgets what was not used lately. Two generations: a value that is found in the old one moves to the
 * young one; when the young one is full it becomes the old one, and what nobody asked for in between is gone. A hit
 * costs one lookup and moves nothing, which a list in order of use would.
 */
export interface Recent<V> {
  get(name: string): V | undefined
  set(name: string, value: V): void
  delete(name: string): void
  clear(): void
  /** Returns how many values are held; at most the capacity. */
  size(): number
}

/** Holds at most `capacity` values (2 or more), and at least the last half of that. */
export function createRecent<V>(capacity: number): Recent<V> {
  const generationSize = Math.floor(capacity / 2)
  let young = new Map<string, V>()
  let old = new Map<string, V>()

  const set = (name: string, value: V) => {
    if (young.size >= generationSize && !young.has(name)) {
      old = young
      young = new Map()
    }
    young.set(name, value)
  }
  return {
    get(name) {
      const value = young.get(name)
      if (value !== undefined) return value
      const aged = old.get(name)
      if (aged !== undefined) set(name, aged)
      return aged
    },
    set,
    delete(name) {
      young.delete(name)
      old.delete(name)
    },
    clear() {
      young.clear()
      old.clear()
    },
    size: () => young.size + old.size,
  }
}
