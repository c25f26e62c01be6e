import { expect, test } from 'bun:test'
import { plainText } from './plainText.ts'

test('nothing that steers a terminal is left, and all text is', () => {
  expect(plainText('\u202e\u001b[2Ja\u0007\u009b31m\r\n\tgrüß 字\u007f')).toBe('[2Ja31m\n\tgrüß 字')
})
