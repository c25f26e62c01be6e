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
]
test.each(sound)('usage is read: %s', (_name, wire, usage) => {
  expect(usageFromWire(wire)).toEqual(usage as never)
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
