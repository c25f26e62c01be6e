import { expect, test } from 'bun:test'
import { wrapAtSpaces } from './wrap.ts'

test.each<[string, number, string]>([
  ['one two three', 7, 'one two\nthree'],
  ['one two three', Number.POSITIVE_INFINITY, 'one two three'],
  ['see "tollgate chat --help": it helps', 20, 'see\n"tollgate chat --help":\nit helps'],
  ['https://example.com/a/long/address', 10, 'https://example.com/a/long/address'],
  ['MODEL  PRICE  OF IT', 10, 'MODEL  PRICE  OF IT'],
  ['  tollgate chat Hi', 10, '  tollgate chat Hi'],
  ['one two three\n\nfour five\n', 9, 'one two\nthree\n\nfour five\n'],
])('%j at %d columns', (text, columns, wrapped) => {
  expect(wrapAtSpaces(text, columns)).toBe(wrapped)
})
