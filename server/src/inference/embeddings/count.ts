/** Which tokens of a call for embeddings are charged: those that the provider reported, where they can be believed, else a count (C4). */

import { believed, needsCheck } from '../call/believable.ts'
import { leastWordPieces } from './wordPieces.ts'

/** The messages that the model was sent. */
export interface Sent {
  readonly inputs: readonly string[]
  /** Of an input that has more, the model reads no more. */
  readonly contextTokens: number
  /** The most tokens that the inputs can come to. */
  readonly tokensAtMost: number
}

export interface CountedEmbeddings {
  readonly promptTokens: number
  /** True when the tokens were counted here. */
  readonly estimated: boolean
  /** The report that was not believed since it claims too little; null in every other case. */
  readonly disbelieved: number | null
}

/** Counts the tokens of texts; never rejects. It may stop at `tokensMost`. */
type CountTokens = (texts: readonly string[], tokensMost?: number) => Promise<number>

/**
 * Returns the tokens to charge for. `reported` is null where the provider reported none. A report of more tokens than the inputs
 * can come to is no report. A report that is low for the length of the inputs is held against a count, unless it is as
 * many as a WordPiece tokenizer may make of them; the count replaces it where it is below half of that.
 */
export async function countOf(
  countTokens: CountTokens,
  sent: Sent,
  reported: number | null,
): Promise<CountedEmbeddings> {
  if (reported === null || reported > sent.tokensAtMost) {
    return { promptTokens: await count(countTokens, sent), estimated: true, disbelieved: null }
  }
  const kept = { promptTokens: reported, estimated: false, disbelieved: null }
  const { inputs, contextTokens } = sent
  if (!needsCheck(reported, bytesOf(inputs)) || reported >= leastWordPieces(inputs, contextTokens)) return kept
  const promptTokens = believed(reported, await count(countTokens, sent))
  return promptTokens === reported ? kept : { promptTokens, estimated: true, disbelieved: reported }
}

/** An input that may be longer than the context is counted by itself: it must not make up for the others. */
async function count(countTokens: CountTokens, { inputs, contextTokens }: Sent): Promise<number> {
  const mayBeLonger = (input: string) => Buffer.byteLength(input) > contextTokens
  const long = inputs.filter(mayBeLonger)
  if (long.length === 0) return countTokens(inputs)
  const counts = [countTokens(inputs.filter((input) => !mayBeLonger(input)))]
  for (const input of long)
    counts.push(countTokens([input], contextTokens).then((tokens) => Math.min(tokens, contextTokens)))
  return (await Promise.all(counts)).reduce((sum, tokens) => sum + tokens, 0)
}

function bytesOf(inputs: readonly string[]): number {
  return inputs.reduce((sum, input) => sum + Buffer.byteLength(input), 0)
}
