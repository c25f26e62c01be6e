import { expect, test } from 'bun:test'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { countPrompt, countText } from './count.ts'

const PROSE = 'A toll gate, as the word says, is where one pays before one passes. '

test('a text is counted by the tokenizer', async () => {
  expect(await countText('')).toBe(0)
  expect(await countText(PROSE)).toBe(countTokens(PROSE))
  expect(await countText('<|endoftext|>')).toBeGreaterThan(1)
})

test('a long text is counted in pieces, at the cost of a token a piece at most', async () => {
  const text = PROSE.repeat(500)
  const exact = countTokens(text)
  const counted = await countText(text)
  expect(counted).toBeGreaterThanOrEqual(exact)
  expect(counted).toBeLessThan(exact * 1.01)
})

test('a prompt has the tokens of its messages and some for their form', async () => {
  const message = { role: 'user', content: PROSE } as const
  expect(await countPrompt([message, message])).toBe(2 * (countTokens(PROSE) + 4))
})

test('a run without a break is cut, so that its length costs no more than other text does, and pairs stay whole', async () => {
  // Whole, each of these would take the tokenizer seconds to minutes: the test would run into its limit.
  for (const run of ['漢', 'x', '🎉', ' ', '-']) {
    const whole = countTokens(run.repeat(128))
    const counted = await countText(run.repeat(128 * 512))
    expect(counted).toBeGreaterThanOrEqual(256 * whole)
    expect(counted).toBeLessThanOrEqual(1_100 * whole)
  }
})
