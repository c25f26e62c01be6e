import { expect, test } from 'bun:test'
import { readCursor, writeCursor } from './cursor.ts'

test('a cursor gives back what was written into it, and goes into a query as it is', () => {
  for (const fields of [['day', null, 0, 1_700_000_000_000], ['a/b+c?&ü'], []]) {
    const text = writeCursor(fields)
    expect(text).toMatch(/^[A-Za-z0-9_-]+$/)
    expect(readCursor(text, fields.length)).toEqual(fields)
  }
})

const written = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

test.each([
  ['no base64', '%%%'],
  ['no JSON', Buffer.from('[1, "a"').toString('base64url')],
  ['no list', written({ 0: 1, length: 3 })],
  ['another version', written([2, 'a', 5])],
  ['a field too few', written([1, 'a'])],
  ['a field too many', written([1, 'a', 5, 6])],
  ['too long', written([1, 'a', 'x'.repeat(600)])],
  ['empty', ''],
])('what is %s is no cursor', (_what, text) => {
  expect(readCursor(text, 2)).toBeNull()
})
