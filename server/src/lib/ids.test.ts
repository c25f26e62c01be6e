import { expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { fc } from '../../test/properties.ts'
import { instantOfUuid, isUuid, toHex, uuidV5, uuidV7 } from './ids.ts'

const FORM = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const instant = fc.nat({ max: 253_402_300_799_999 })

test('a UUIDv7 has its form, and its instant in front', () => {
  fc.assert(
    fc.property(instant, fc.uint8Array({ minLength: 10, maxLength: 10 }), (epochMs, bytes) => {
      const id = uuidV7(epochMs, () => bytes)
      expect(id).toMatch(FORM)
      expect(isUuid(id)).toBe(true)
      expect(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)).toBe(epochMs)
    }),
  )
})

test('all 74 random bits of a UUIDv7 are used, and nothing else is', () => {
  const zero = uuidV7(0, () => new Uint8Array(10))
  const seen = new Set<string>()
  for (let bit = 0; bit < 80; bit += 1) {
    const bytes = new Uint8Array(10)
    bytes[bit >> 3] = 1 << (bit & 7)
    const id = uuidV7(0, () => bytes)
    if (id !== zero) seen.add(id)
  }
  expect(seen.size).toBe(74)
})

test('a UUIDv5 is the one of RFC 9562 for its example, and another for each name and namespace', () => {
  const domains = '6ba7b810-9dad-11d1-80b4-00c04fd430c8'
  expect(uuidV5(domains, 'www.example.com')).toBe('2ed6657d-e927-568b-95e1-2665a8aea6a2')
  expect(uuidV5(domains, 'example.com')).not.toBe(uuidV5(domains, 'www.example.com'))
  expect(uuidV5(uuidV5(domains, 'x'), 'x')).not.toBe(uuidV5(domains, 'x'))
})

test('later ids sort later', () => {
  fc.assert(
    fc.property(instant, instant, (one, two) => {
      fc.pre(one !== two)
      const [a, b] = [one, two].map((epochMs) => uuidV7(epochMs, (length) => randomBytes(length)))
      expect((a ?? '') < (b ?? '')).toBe(one < two)
    }),
  )
})

test('the bytes of an id are its own, also where the source uses its buffer again', () => {
  const buffer = new Uint8Array(10)
  let calls = 0
  const source = () => {
    calls += 1
    return buffer.fill(calls)
  }
  const ids = [uuidV7(1, source), uuidV7(1, source)]
  expect(ids).toEqual([1, 2].map((filling) => uuidV7(1, () => new Uint8Array(10).fill(filling))))
})

test('only UUIDs in their usual form pass', () => {
  const id = '0190a000-0000-7000-8000-000000000000'
  expect([id, id.toUpperCase()].map(isUuid)).toEqual([true, true])
  for (const other of [
    '',
    'x',
    `{${id}}`,
    `${id}0`,
    id.replaceAll('-', ''),
    ` ${id}`,
    `${id}\n`,
    id.replace('a', 'g'),
  ]) {
    expect(isUuid(other)).toBe(false)
  }
})

test('hex is lower-case and keeps every byte', () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      expect(toHex(bytes)).toBe(Buffer.from(bytes).toString('hex'))
    }),
  )
})

test('the instant of a version 7 UUID can be read from it, and of no other text', () => {
  const random = (length: number) => new Uint8Array(length).fill(255)
  for (const epochMs of [0, 1, Date.UTC(2031, 4, 5, 6, 7, 8, 9), 2 ** 48 - 1]) {
    expect(instantOfUuid(uuidV7(epochMs, random))).toBe(epochMs)
  }
  expect(instantOfUuid('00000000-0000-4000-8000-000000000000')).toBeNull()
  expect(instantOfUuid('nonsense')).toBeNull()
})
