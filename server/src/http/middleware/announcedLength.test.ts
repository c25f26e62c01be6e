import { expect, test } from 'bun:test'
import { exchangeOf } from '../../../test/exchange.ts'
import { announcedLength } from './announcedLength.ts'

test.each([
  [undefined, null],
  ['1024', null],
  ['1025', 'request_too_large'],
  ['99999999999999999999', 'request_too_large'],
  // Two headers, as they arrive.
  ['2, 2', 'invalid_request'],
  ['2, 3', 'invalid_request'],
  ['0x10', 'invalid_request'],
  ['1e3', 'invalid_request'],
  ['-1', 'invalid_request'],
] as const)('a length of %p, where 1024 bytes are taken: %p', async (length, code) => {
  const headers: HeadersInit = length === undefined ? {} : { 'Content-Length': length }
  const refused = await announcedLength(1_024)(exchangeOf('/v1/things', { method: 'POST', headers }))
  expect(refused?.code ?? null).toBe(code)
})
