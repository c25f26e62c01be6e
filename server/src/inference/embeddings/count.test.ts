import { expect, test } from 'bun:test'
import * as cl100k from 'gpt-tokenizer/encoding/cl100k_base'
import * as o200k from 'gpt-tokenizer/encoding/o200k_base'
import * as r50k from 'gpt-tokenizer/encoding/r50k_base'
import { countOf } from './count.ts'
import { leastWordPieces } from './wordPieces.ts'

/** Loading the tables of a tokenizer takes half a second of a free core. */
const LIMIT_MS = 60_000

const TEXTS: Readonly<Record<string, string>> = {
  English: 'The quick brown fox jumps over the lazy dog. '.repeat(10),
  Hindi: 'नमस्ते दुनिया, यह एक परीक्षण वाक्य है जो हिंदी में लिखा गया है। '.repeat(10),
  Thai: 'สวัสดีชาวโลก นี่คือประโยคทดสอบที่เขียนเป็นภาษาไทยเพื่อดูจำนวนโทเค็น '.repeat(10),
  Chinese: '今天天气很好，我们去公园散步吧。人工智能正在改变世界。'.repeat(10),
  code: 'function add(a, b) {\n        return a + b; // sum\n}\n'.repeat(20),
  blanks: ' '.repeat(2_000),
  'blank lines': `a${'\n'.repeat(20)}${' '.repeat(40)}`.repeat(20),
}

const counting = (texts: readonly string[]) =>
  Promise.resolve(texts.reduce((sum, text) => sum + o200k.countTokens(text), 0))
const sent = (...inputs: string[]) => ({ inputs, contextTokens: 1_000_000, tokensAtMost: 10_000_000 })

for (const [name, { countTokens }] of Object.entries({ cl100k, o200k, r50k })) {
  test(
    `what ${name} counts is believed of every text`,
    async () => {
      for (const [language, text] of Object.entries(TEXTS)) {
        const honest = countTokens(text)
        expect([language, await countOf(counting, sent(text), honest)]).toEqual([
          language,
          { promptTokens: honest, estimated: false, disbelieved: null },
        ])
      }
    },
    LIMIT_MS,
  )
}

test('no report, and one of more tokens than there can be, is replaced by a count; that is no lie to be told of', async () => {
  const count = await counting([TEXTS['English'] ?? ''])
  const counted = { promptTokens: count, estimated: true, disbelieved: null }
  expect(await countOf(counting, sent(TEXTS['English'] ?? ''), null)).toEqual(counted)
  expect(await countOf(counting, sent(TEXTS['English'] ?? ''), 10_000_001)).toEqual(counted)
})

test('nothing is counted where the report is high enough for the bytes', async () => {
  const never = () => Promise.reject(new Error('it was counted'))
  expect(await countOf(never, sent('x'.repeat(800)), 100)).toMatchObject({ promptTokens: 100 })
})

test.each([
  ['words', 'one two', 4],
  ['blanks of all kinds', '  one\n\ttwo\u3000three\u00a0four  ', 6],
  ['nothing', '', 2],
  ['only blanks', ' '.repeat(100), 2],
  ['one long word', 'x'.repeat(10_000), 3],
  ['Chinese', '今天 is today', 6],
  ['accents and marks without width alone', '\u0301 \u200b', 2],
  ['accents in a word', 'e\u0301te\u0301', 3],
])('the fewest pieces of %s', (_name, text, pieces) => {
  expect(leastWordPieces([text], 1_000)).toBe(pieces)
  expect(leastWordPieces([text, text], 2)).toBe(4)
})
