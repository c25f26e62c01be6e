/** Exports open at once in a process, of a person and of all. Each has one short query under way at a time. */
const EACH_MOST = 2
const ALL_MOST = 20

/** Returns the function that takes a place among the open exports; null where there is none. Its result gives the place back, once. */
export function createOwnExportPlaces(): (userId: string) => (() => void) | null {
  const open = new Map<string, number>()
  let all = 0
  return (userId) => {
    const own = open.get(userId) ?? 0
    if (own >= EACH_MOST || all >= ALL_MOST) return null
    open.set(userId, own + 1)
    all += 1
    return () => {
      all -= 1
      const left = (open.get(userId) ?? 1) - 1
      if (left === 0) open.delete(userId)
      else open.set(userId, left)
    }
  }
}
