/** The number that follows from a call: FNV-1a, 31 bits. */
export function seedOf(model: string, prompt: string): number {
  let hash = 0x811c9dc5
  for (const character of `${model}\n${prompt}`) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193)
  return hash >>> 1
}
