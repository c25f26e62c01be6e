/**
 * Token counts for answers whose upstream reported none (C4): counted with a common tokenizer and marked as estimated,
 * since the model's own may differ.
 */

import type { ChatMessage } from '../upstream/spec.ts'

/** The tokenizer is fed pieces of this many characters, so that a long text never blocks other calls for long. */
const PIECE_CHARACTERS = 16_384

/** Tokens that chat formats spend around each message. */
const TOKENS_EACH_MESSAGE = 4

type CountTokens = (text: string) => number

let loading: Promise<CountTokens> | undefined

/** Loaded when first needed: most processes never need it, and its tables take tens of megabytes. */
function loadTokenizer(): Promise<CountTokens> {
  loading ??= import('gpt-tokenizer/encoding/o200k_base').then(
    ({ countTokens }) =>
      (text) =>
        // Markers such as <|endoftext|> in a customer's text are text.
        countTokens(text, { allowedSpecial: new Set<string>(), disallowedSpecial: new Set<string>() }),
  )
  return loading
}

/** Counts the tokens of a text. Gives other work a turn between pieces. */
export async function countText(text: string): Promise<number> {
  if (text === '') return 0
  const count = await loadTokenizer()
  let tokens = 0
  for (let start = 0; start < text.length; start += PIECE_CHARACTERS) {
    if (start > 0) await new Promise((resolve) => setImmediate(resolve))
    tokens += count(text.slice(start, start + PIECE_CHARACTERS))
  }
  return tokens
}

/** Counts the tokens of a prompt. */
export async function countPrompt(messages: readonly ChatMessage[]): Promise<number> {
  let tokens = 0
  for (const { content } of messages) tokens += TOKENS_EACH_MESSAGE + (await countText(content))
  return tokens
}
