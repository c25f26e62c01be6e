import { editDistance } from '../lib/editDistance.ts'

/** The word among `words` that `typed` was most likely meant to be; undefined when none is near. */
export function nearestWord(typed: string, words: readonly string[]): string | undefined {
  // Two letters swapped are two steps. In a word of 3 letters, two edits already give another word.
  let allowed = typed.length <= 3 ? 1 : 2
  let nearest: string | undefined
  for (const word of words) {
    const steps = word.startsWith(typed) && typed.length >= 3 ? 0 : editDistance(typed, word)
    if (steps <= allowed && (nearest === undefined || steps < allowed)) {
      nearest = word
      allowed = steps
    }
  }
  return nearest
}
