import { expect, test } from 'bun:test'
import { exchangeOf } from '../../../test/exchange.ts'
import { oneHost } from './oneHost.ts'

test.each([
  [undefined, 'A', null],
  ['one.test', 'A', null],
  ['one.test, two.test', 'A', 'validation_failed'],
  ['one.test, two.test', 'B', 'invalid_request'],
] as const)('host %p in envelope %s: %p', async (host, envelope, code) => {
  const headers: HeadersInit = host === undefined ? {} : { Host: host }
  const refused = await oneHost(exchangeOf('/v1/things', { headers }, { envelope }))
  expect(refused?.code ?? null).toBe(code)
})
