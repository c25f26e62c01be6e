import { expect, test } from 'bun:test'
import { systemRandom } from '../infra/random.ts'
import { keyFingerprint, seal, unseal } from './seal.ts'

const random = systemRandom()
const dataKey = random(32)
const answer = (name: string) => ({ kind: 'tollgate kept answer', name }) as const
const body = new TextEncoder().encode('the words of an answer')
const sealed = seal(dataKey, answer('attempt'), body, random)

test('a sealed value opens again, and shows nothing', () => {
  expect(unseal(dataKey, answer('attempt'), sealed)).toEqual(body)
  expect(Buffer.from(sealed).includes('words')).toBe(false)
  expect(seal(dataKey, answer('attempt'), body, random)).not.toEqual(sealed)
  expect(unseal(dataKey, answer('a'), seal(dataKey, answer('a'), new Uint8Array(), random))).toEqual(new Uint8Array())
})

test.each<[string, () => unknown]>([
  ['another key', () => unseal(random(32), answer('attempt'), sealed)],
  ["another attempt's name", () => unseal(dataKey, answer('other'), sealed)],
  ["another kind's", () => unseal(dataKey, { kind: 'tollgate webhook secret', name: 'attempt' }, sealed)],
  ['a changed bit', () => unseal(dataKey, answer('attempt'), sealed.with(20, (sealed[20] ?? 0) ^ 1))],
  ['a cut end', () => unseal(dataKey, answer('attempt'), sealed.slice(0, -1))],
  ['nothing', () => unseal(dataKey, answer('attempt'), new Uint8Array(5))],
])('%s opens nothing', (_name, open) => {
  expect(open).toThrow()
})

test('the fingerprint tells keys apart and is none of them', () => {
  expect(keyFingerprint(dataKey)).toMatch(/^[0-9a-f]{32}$/)
  expect(keyFingerprint(dataKey)).not.toBe(keyFingerprint(random(32)))
  expect(Buffer.from(dataKey).toString('hex')).not.toContain(keyFingerprint(dataKey))
})
