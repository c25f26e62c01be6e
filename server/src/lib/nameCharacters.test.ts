import { expect, test } from 'bun:test'
import { quotedName } from './nameCharacters.ts'

test.each([
  ['Acme', '"Acme"'],
  ['Acme" — account locked', `"Acme' — account locked"`],
  ['“Acme”', `"'Acme'"`],
  ['a'.repeat(40), `"${'a'.repeat(40)}"`],
  ['😀'.repeat(64), `"${'😀'.repeat(40)}..."`],
])('%p stands in mails as %p', (name, shown) => {
  expect(quotedName(name)).toBe(shown)
})
