import { expect, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import { countTokens, splitTokens } from './tokens.ts'

const rows: [string, string[]][] = [
  ['', []],
  ['Hi', ['Hi']],
  ['Hi there', ['Hi', ' there']],
  ['abcdefghij', ['abcdef', 'ghij']],
  ['a\n\n b ', ['a', '\n\n b', ' ']],
  ['abcde😀f', ['abcde😀', 'f']],
]
test.each(rows)('%p', (text, tokens) => {
  expect(splitTokens(text, 100)).toEqual(tokens)
  expect(countTokens(text)).toBe(tokens.length)
})

test('tokens make up the text again, and any first ones of them are the same tokens when split again', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.nat(50), (text, limit) => {
      const tokens = splitTokens(text, Number.MAX_SAFE_INTEGER)
      expect(tokens.join('')).toBe(text)
      expect(countTokens(text)).toBe(tokens.length)
      const some = tokens.slice(0, limit)
      expect(splitTokens(text, limit)).toEqual(some)
      expect(splitTokens(some.join(''), Number.MAX_SAFE_INTEGER)).toEqual(some)
    }),
  )
})
