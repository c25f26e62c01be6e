/** Words of which every tokenizer that is common makes one token each: so their number is the count of a text. */

/** Of few bytes a token, of usual ones, and of more than any usual text has. A text of them has a space before each. */
export const WORDS = ['a', 'word', 'responsibilities'] as const
export type Word = (typeof WORDS)[number]

/** The thinking of a model, a token each. */
export const THOUGHT = ' hm'

/** The counter cuts longer texts, and a word that is cut has more tokens. */
const COUNTED_AS_ONE_CHARACTERS = 4_000

/** A word as it stands in a text. */
export const spaced = (word: Word) => ` ${word}`

/** The most of such a word that one text may have. */
export const wordsMost = (word: Word) => Math.floor(COUNTED_AS_ONE_CHARACTERS / spaced(word).length)

const DIGITS = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine']

/** A number in words, a token each with the one before them: what says which call a text is for. */
export function messageOf(number: number): string {
  return `call ${[...String(number)].map((digit) => DIGITS[Number(digit)]).join(' ')}`
}

/** The number that a text says; NaN where it says none. */
export function numberOf(message: string): number {
  const [call, ...words] = message.split(' ')
  return call === 'call' ? Number(words.map((word) => DIGITS.indexOf(word)).join('')) : Number.NaN
}

/** Returns how many words a text has that {@link messageOf} made, or that is one word again and again. */
export const wordsIn = (text: string) => text.trim().split(' ').length
