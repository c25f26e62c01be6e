/**
 * Counts tokens with a common tokenizer. Imported by `tokensWorker.ts` only: loading the tokenizer's tables stops a thread
 * for half a second, and a long text for longer.
 */

import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { endOfPiece, PIECE_CHARACTERS } from './textPieces.ts'

/**
 * The tokenizer takes time by the square of a run without a break: 16,384 Chinese characters, or one long word, would
 * keep the thread for seconds. So longer runs are cut, at the cost of about a token for each cut.
 */
const RUN_CHARACTERS = 128
const LONG_RUN = new RegExp(`\\S{${RUN_CHARACTERS + 1}}|\\s{${RUN_CHARACTERS + 1}}`)

/** Markers such as <|endoftext|> in a customer's text are text. */
const AS_TEXT = { allowedSpecial: new Set<string>(), disallowedSpecial: new Set<string>() }

/** Counts the tokens of a text. */
export function countText(text: string): number {
  let tokens = 0
  for (const piece of piecesOf(text, PIECE_CHARACTERS)) {
    const pieces = LONG_RUN.test(piece) ? piecesOf(piece, RUN_CHARACTERS) : [piece]
    for (const each of pieces) tokens += countTokens(each, AS_TEXT)
  }
  return tokens
}

/** Cuts a text into pieces of `characters`, or one more where that keeps a surrogate pair together. */
function piecesOf(text: string, characters: number): string[] {
  const pieces: string[] = []
  for (let start = 0; start < text.length; ) {
    const end = endOfPiece(text, start, characters)
    pieces.push(text.slice(start, end))
    start = end
  }
  return pieces
}
