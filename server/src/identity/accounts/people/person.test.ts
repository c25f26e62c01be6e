import { expect, test } from 'bun:test'
import { checkPerson } from './person.ts'

const named = (name: string) => checkPerson({ name, email: 'ada@example.com', password: 'a long enough phrase' })

test.each([['Ada'], ["O'Brien"], ['Dr. J.R. Lee'], ['ada.lovelace'], ['李 雷'], ['a'.repeat(100)]])(
  '%p can name a person',
  (name) => {
    expect(named(name)).toEqual({ ok: true, value: { name, email: 'ada@example.com' } })
  },
)

test.each([
  [''],
  [' '],
  ['a'.repeat(101)],
  ['two\nlines'],
  ['a\u0000b'],
  ['half a pair \ud800'],
  ['turned \u202e'],
  ['see http://evil.example'],
  ['www.evil.example'],
  ['Support, evil.example/login'],
])('%p can not', (name) => {
  expect(named(name)).toMatchObject({ ok: false, refusal: { code: 'validation_failed', param: 'name' } })
})
