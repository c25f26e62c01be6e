import { expect, test } from 'bun:test'
import { exchangeOf } from '../../../test/exchange.ts'
import { query } from './query.ts'

test.each([
  ['/v1/usage', 'A', null, ''],
  ['/v1/usage?a=1&b=2', 'A', null, 'a=1&b=2'],
  ['/v1/usage?c=1', 'A', 'validation_failed', ''],
  ['/v1/models?c=1', 'B', 'unsupported_parameter', ''],
  ['/v1/usage?a=1&a=2', 'A', 'validation_failed', ''],
  ['/v1/models?a=1&a=2', 'B', 'invalid_request', ''],
  ['/v1/videos?a=1&%61=2', 'B', 'validation_failed', ''],
] as const)('%s in envelope %s: %p', async (path, envelope, code, read) => {
  const exchange = exchangeOf(path, {}, { envelope })
  const refused = await query(['a', 'b'])(exchange)
  expect(refused?.code ?? null).toBe(code)
  expect(`${exchange.query}`).toBe(read)
})

test.each([
  [[], 'this path takes none'],
  [['a', 'b'], 'this path takes a, b'],
])('of %p a refusal says which there are, and echoes no more than 64 characters', async (known, words) => {
  const refused = await query(known)(exchangeOf(`/v1/usage?${'x'.repeat(100)}=1`))
  expect(refused?.message).toBe(`The query parameter '${'x'.repeat(64)}' is not known here: ${words}.`)
  expect(refused?.param).toBe('x'.repeat(64))
})
