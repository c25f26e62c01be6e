/** Cuts texts for the tokenizer. Apart from it, since loading its tables takes half a second. */

/**
 * Texts are counted in pieces of this many characters, so that a long run in one does not cut the others, and so that the
 * pieces of other texts can come between.
 */
export const PIECE_CHARACTERS = 4_096

/** Returns the end of the piece of `characters` that begins at `start`; one more, where that would split a surrogate pair. */
export function endOfPiece(text: string, start: number, characters: number): number {
  const isSplitPair = (text.codePointAt(start + characters - 1) ?? 0) > 0xffff
  return Math.min(start + characters + (isSplitPair ? 1 : 0), text.length)
}
