/**
 * Token counts for answers whose upstream reported none (C4): counted with a common tokenizer and marked as estimated,
 * since the model's own may differ.
 */

import type { ChatMessage } from '../upstream/spec.ts'

/** After this many characters other calls get a turn: some milliseconds of work at worst. */
const TURN_CHARACTERS = 4_096

/**
 * The tokenizer takes time by the square of a run without a break: 16,384 Chinese characters, or one long word, would
 * stop every other call for seconds. So longer runs are cut, at the cost of about a token for each cut.
 */
const RUN_CHARACTERS = 128
const LONG_RUN = new RegExp(`\\S{${RUN_CHARACTERS + 1}}|\\s{${RUN_CHARACTERS + 1}}`)

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
  for (const [index, piece] of piecesOf(text, TURN_CHARACTERS).entries()) {
    if (index > 0) await new Promise((resolve) => setImmediate(resolve))
    if (!LONG_RUN.test(piece)) tokens += count(piece)
    else for (const run of piecesOf(piece, RUN_CHARACTERS)) tokens += count(run)
  }
  return tokens
}

/** Cuts a text into pieces of `characters`, or one more where that keeps a surrogate pair together. */
function piecesOf(text: string, characters: number): string[] {
  const pieces: string[] = []
  for (let start = 0; start < text.length; ) {
    const isSplitPair = (text.codePointAt(start + characters - 1) ?? 0) > 0xffff
    const end = start + characters + (isSplitPair ? 1 : 0)
    pieces.push(text.slice(start, end))
    start = end
  }
  return pieces
}

/** Counts the tokens of a prompt. */
export async function countPrompt(messages: readonly ChatMessage[]): Promise<number> {
  let tokens = 0
  for (const { content } of messages) tokens += TOKENS_EACH_MESSAGE + (await countText(content))
  return tokens
}
