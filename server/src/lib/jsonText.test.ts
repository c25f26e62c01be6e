import { expect, test } from 'bun:test'
import { nestsDeeperThan } from './jsonText.ts'

test.each<[string, string, number, boolean]>([
  ['a number', '1', 0, false],
  ['a list', '[]', 0, true],
  ['lists within objects, as deep as may be', '[{"a":[1]}]', 3, false],
  ['lists within objects', '[{"a":[1]}]', 2, true],
  ['lists beside each other', '[[],[],[]]', 2, false],
  ['brackets in strings', '["[[[[", "\\"[[[[", "\\\\"]', 1, false],
  ['brackets behind a string that ends with a backslash', '["\\\\",[[]]]', 2, true],
  ['a million brackets', '['.repeat(1_000_000), 32, true],
  ['a string without an end', '"[[[[', 1, false],
])('%s', (_, text, most, isDeeper) => {
  expect(nestsDeeperThan(text, most)).toBe(isDeeper)
})
