import { expect, test } from 'bun:test'
import { type Fingerprinted, fingerprintOf } from './fingerprint.ts'

const bytes = (text: string) => new TextEncoder().encode(text)
const request: Fingerprinted = { method: 'POST', path: '/v1/x', query: 'a=1', body: bytes('{"n":1}') }
const hex = (more: Partial<Fingerprinted> = {}) => Buffer.from(fingerprintOf({ ...request, ...more })).toString('hex')
const form = (...fields: [string, string][]) => fields.map(([name, value]) => ({ name, value }))

test('the same request has the same, 32 bytes long', () => {
  expect(hex()).toBe(hex({ body: bytes('{"n":1}') }))
  expect(hex()).toHaveLength(64)
})

test.each<[string, Partial<Fingerprinted>]>([
  ['method', { method: 'DELETE' }],
  ['path', { path: '/v1/y' }],
  ['query', { query: 'a=2' }],
  ['body', { body: bytes('{"n": 1}') }],
  ['no body', { body: new Uint8Array() }],
  ['a form', { body: form(['n', '1']) }],
  ['an empty form', { body: [] }],
  ['a boundary between two parts that moves', { path: '/v1/xa', query: '=1' }],
])('another %s has another', (_name, more) => {
  expect(hex(more)).not.toBe(hex())
})

test.each<[string, ReturnType<typeof form>]>([
  ['order', form(['b', '2'], ['a', '1'])],
  ['value', form(['a', '1'], ['b', '3'])],
  ['name', form(['a', '1'], ['c', '2'])],
  ['number of fields', form(['a', '1'])],
  ['cut between name and value', form(['a1', ''], ['b', '2'])],
])('another %s of a form has another', (_name, fields) => {
  expect(hex({ body: fields })).not.toBe(hex({ body: form(['a', '1'], ['b', '2']) }))
})
