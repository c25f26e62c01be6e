/** Cuts texts for the tokenizer. Apart from it, since loading its tables takes half a second. */

/**
 * Texts are counted in pieces of this many characters, so that a long run in one does not cut the others, and so that the
 * pieces of other texts can come between.
 */
export const PIECE_CHARACTERS = 4_096

/** Returns where a piece of `characters` ends that begins at `start`: one later where that keeps a surrogate pair together. */
export function endOfPiece(text: string, start: number, characters: number): number {
  const isSplitPair = (text.codePointAt(start + characters - 1) ?? 0) > 0xffff
  return Math.min(start + characters + (isSplitPair ? 1 : 0), text.length)
}
