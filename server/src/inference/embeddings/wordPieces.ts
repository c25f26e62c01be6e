/**
 * The fewest tokens that a WordPiece tokenizer makes of texts. Many models for embeddings have one. It drops blanks, and a word
 * that its vocabulary does not know is one token, however long: Thai without blanks, a run of emoji, a hash. An honest
 * report of such a text is far below the count of any other tokenizer.
 */

/** The marks at the start and the end of each text. */
const MARKS_EACH = 2

/** Returns that number for all texts together; of a text that has more than the model's context no more is read. */
export function leastWordPieces(texts: readonly string[], contextTokens: number): number {
  let pieces = 0
  for (const text of texts) pieces += Math.min(MARKS_EACH + wordsOf(text), contextTokens)
  return pieces
}

/** Words between blanks; each Chinese character is a word of its own. */
function wordsOf(text: string): number {
  let words = 0
  let isInWord = false
  for (let index = 0; index < text.length; index += 1) {
    const character = text.charCodeAt(index)
    if (isChinese(character)) {
      words += 1
      isInWord = false
    } else if (isBetweenWords(character)) isInWord = false
    else if (!isAccent(character)) {
      if (!isInWord) words += 1
      isInWord = true
    }
  }
  return words
}

/** Blanks, control characters, and the general punctuation of Unicode, among which are marks without width. */
function isBetweenWords(character: number): boolean {
  if (character <= 0x7e) return character <= 0x20
  return (
    character <= 0xa0 || (character >= 0x2000 && character <= 0x206f) || character === 0x3000 || character === 0xfeff
  )
}

function isChinese(character: number): boolean {
  return (character >= 0x3400 && character <= 0x9fff) || (character >= 0xf900 && character <= 0xfaff)
}

/** A combining accent; tokenizers drop it, and a word of nothing else with it. */
function isAccent(character: number): boolean {
  return character >= 0x300 && character <= 0x36f
}
