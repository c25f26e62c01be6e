import { expect, test } from 'bun:test'
import { usageFromWire } from './usage.ts'

const sound: [string, unknown, object][] = [
  [
    'OpenAI, with details',
    {
      prompt_tokens: 19,
      completion_tokens: 10,
      total_tokens: 29,
      prompt_tokens_details: { cached_tokens: 16, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 4 },
    },
    { promptTokens: 19, cachedPromptTokens: 16, completionTokens: 10 },
  ],
  [
    'vLLM, details null',
    { prompt_tokens: 7, total_tokens: 9, completion_tokens: 2, prompt_tokens_details: null },
    { promptTokens: 7, cachedPromptTokens: 0, completionTokens: 2 },
  ],
  [
    'vLLM, before the first token: no completion yet',
    { prompt_tokens: 7, total_tokens: 7 },
    { promptTokens: 7, cachedPromptTokens: 0, completionTokens: 0 },
  ],
  [
    'xAI, as documented: reasoning is in the total alone',
    {
      prompt_tokens: 32,
      completion_tokens: 9,
      total_tokens: 135,
      completion_tokens_details: { reasoning_tokens: 94 },
    },
    { promptTokens: 32, cachedPromptTokens: 0, completionTokens: 103 },
  ],
  [
    'xAI, an answer of one token',
    {
      prompt_tokens: 12,
      completion_tokens: 1,
      total_tokens: 399,
      prompt_tokens_details: { cached_tokens: 11 },
      completion_tokens_details: { reasoning_tokens: 386 },
    },
    { promptTokens: 12, cachedPromptTokens: 11, completionTokens: 387 },
  ],
  [
    'Gemini in the form of OpenAI: reasoning is in the total alone, and there are no details',
    { prompt_tokens: 8, completion_tokens: 5, total_tokens: 213 },
    { promptTokens: 8, cachedPromptTokens: 0, completionTokens: 205 },
  ],
  [
    'reasoning so far, and no answer yet',
    { prompt_tokens: 8, total_tokens: 48 },
    { promptTokens: 8, cachedPromptTokens: 0, completionTokens: 40 },
  ],
]
test.each(sound)('usage is read: %s', (_name, wire, usage) => {
  expect(usageFromWire(wire)).toEqual(usage as never)
})

const senselessTotals: [unknown][] = [[null], [undefined], [0], [7], [9], [-1], [90.5], ['90'], [1e15], [2 ** 60], [{}]]
test.each(senselessTotals)('a total of %p takes nothing from the completion and adds nothing to it', (total) => {
  expect(usageFromWire({ prompt_tokens: 7, completion_tokens: 3, total_tokens: total })).toEqual({
    promptTokens: 7,
    cachedPromptTokens: 0,
    completionTokens: 3,
  })
})

const senseless: [string, unknown][] = [
  ['null', null],
  ['a string', '12'],
  ['an array', [1]],
  ['no prompt', { completion_tokens: 3 }],
  ['negative', { prompt_tokens: -1, completion_tokens: 3 }],
  ['negative output', { prompt_tokens: 1, completion_tokens: -3 }],
  ['fractional', { prompt_tokens: 1.5, completion_tokens: 3 }],
  ['a digit string', { prompt_tokens: '1', completion_tokens: 3 }],
  ['absurd', { prompt_tokens: 1e15, completion_tokens: 3 }],
  ['beyond safe integers', { prompt_tokens: 2 ** 60, completion_tokens: 3 }],
  [
    'more cached than there are',
    { prompt_tokens: 1, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 2 } },
  ],
  ['negative cached', { prompt_tokens: 1, completion_tokens: 3, prompt_tokens_details: { cached_tokens: -2 } }],
]
test.each(senseless)('usage that makes no sense counts as absent: %s', (_name, wire) => {
  expect(usageFromWire(wire)).toBeNull()
})
