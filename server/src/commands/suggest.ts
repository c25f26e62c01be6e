/** The word among `words` that `typed` was most likely meant to be; undefined when none is near. */
export function nearestWord(typed: string, words: readonly string[]): string | undefined {
  // Two letters swapped are two steps. In a short word two steps make another word.
  let allowed = typed.length <= 3 ? 1 : 2
  let nearest: string | undefined
  for (const word of words) {
    const steps = word.startsWith(typed) && typed.length >= 3 ? 0 : editDistance(typed, word, allowed)
    if (steps <= allowed && (nearest === undefined || steps < allowed)) {
      nearest = word
      allowed = steps
    }
  }
  return nearest
}

/** Insertions, deletions and replacements that lead from `a` to `b`; anything over `limit` may be given as more than it. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row]
    for (let column = 1; column <= b.length; column += 1) {
      const replaced = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1)
      current.push(Math.min(replaced, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1))
    }
    previous = current
  }
  return previous[b.length] ?? 0
}
