import { expect, test } from 'bun:test'
import { exchangeOf } from '../../../test/exchange.ts'
import { fingerprint } from './fingerprint.ts'

const KEY = { 'Idempotency-Key': 'k' }

async function of(path: string, bytes: string, headers: HeadersInit = KEY): Promise<string> {
  const more = { bytes: new TextEncoder().encode(bytes) }
  const exchange = exchangeOf(path, { method: 'POST', headers }, more)
  expect(await fingerprint('json')(exchange)).toBeNull()
  return Buffer.from(exchange.fingerprint).toString('hex')
}

test('without an Idempotency-Key nothing is hashed', async () => {
  expect(await of('/v1/things', '{}', {})).toBe('')
})

test('it is the same for a request that is sent again, and for no other', async () => {
  const first = await of('/v1/things/1', '{}')
  expect(first).toHaveLength(64)
  expect(await of('/v1/things/1', '{}')).toBe(first)
  for (const other of [
    await of('/v1/things/2', '{}'),
    await of('/v1/things/1?x=1', '{}'),
    await of('/v1/things/1', '{ }'),
  ]) {
    expect(other).not.toBe(first)
  }
})

test('a form is taken by its fields: another boundary is the same request', async () => {
  const fields = [{ name: 'a', value: '1' }]
  const prints: string[] = []
  for (const boundary of ['x', 'y']) {
    const headers = { ...KEY, 'Content-Type': `multipart/form-data; boundary=${boundary}` }
    const more = { body: fields, bytes: new TextEncoder().encode(boundary) }
    const exchange = exchangeOf('/v1/things', { method: 'POST', headers }, more)
    await fingerprint('form')(exchange)
    prints.push(Buffer.from(exchange.fingerprint).toString('hex'))
  }
  expect(prints[0]).toHaveLength(64)
  expect(prints[0]).toBe(prints[1] ?? '')
})
