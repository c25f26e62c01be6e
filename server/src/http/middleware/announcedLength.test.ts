import { expect, test } from 'bun:test'
import { exchangeOf } from '../../../test/exchange.ts'
import { announcedLength } from './announcedLength.ts'

test.each([
  [undefined, null],
  ['1024', null],
  ['1025', 'request_too_large'],
  ['99999999999999999999', 'request_too_large'],
  // Two headers, as they arrive.
  ['2, 2', 'validation_failed'],
  ['2, 3', 'validation_failed'],
  ['0x10', 'validation_failed'],
  ['1e3', 'validation_failed'],
  ['-1', 'validation_failed'],
] as const)('a length of %p, where 1024 bytes are taken: %p', async (length, code) => {
  const headers: HeadersInit = length === undefined ? {} : { 'Content-Length': length }
  const refused = await announcedLength(1_024)(exchangeOf('/v1/things', { method: 'POST', headers }))
  expect(refused?.code ?? null).toBe(code)
})
