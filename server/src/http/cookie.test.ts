import { expect, test } from 'bun:test'
import { cookieOf } from './cookie.ts'

test.each([
  [null, null],
  ['', null],
  ['sid', null],
  ['sid=', null],
  ['sid=a', 'a'],
  ['x=1; sid=a=b; y=2', 'a=b'],
  ['x=1;sid=a', 'a'],
  ['asid=a; sid2=b', null],
  ['Sid=a', null],
  ['sid=a; sid=a', null],
  ['sid=; sid=a', null],
])('of %p it is %p', (header, value) => {
  expect(cookieOf(header, 'sid')).toBe(value)
})
