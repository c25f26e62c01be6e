import { expect, test } from 'bun:test'
import { createHash, randomBytes } from 'node:crypto'
import { drawKey, hashKey, isWellFormedKey, keyStateAt } from './key.ts'

/** The same bytes in every run: xorshift32 from a fixed seed. */
function seededBytes(seed: number): (byteCount: number) => Uint8Array {
  let state = seed
  return (byteCount) =>
    Uint8Array.from({ length: byteCount }, () => {
      state ^= state << 13
      state ^= state >>> 17
      state ^= state << 5
      return (state >>> 8) & 0xff
    })
}

test('a key is svc_live_ and 24 base62 characters, and no two are alike', () => {
  const keys = Array.from({ length: 1_000 }, () => drawKey(randomBytes))
  for (const key of keys) expect(key).toMatch(/^svc_live_[0-9A-Za-z]{24}$/)
  expect(new Set(keys).size).toBe(1_000)
})

test('every base62 character is equally likely at every position (chi-square, fixed seed)', () => {
  const draws = 20_000
  const bytes = seededBytes(20_311)
  const counts = Array.from({ length: 24 }, () => new Map<string, number>())
  for (let draw = 0; draw < draws; draw += 1) {
    const characters = drawKey(bytes).slice('svc_live_'.length)
    counts.forEach((count, position) => {
      const character = characters.charAt(position)
      count.set(character, (count.get(character) ?? 0) + 1)
    })
  }
  const expected = draws / 62
  for (const count of counts) {
    let chiSquare = (62 - count.size) * expected
    for (const seen of count.values()) chiSquare += (seen - expected) ** 2 / expected
    // 61 degrees of freedom: chance passes 110 once in 10,000. `byte % 62` without the limit gives about 190 here.
    expect(chiSquare).toBeLessThan(110)
  }
})

test('bytes that would favour some characters are drawn again, however many there are', () => {
  let calls = 0
  const key = drawKey((byteCount) => {
    calls += 1
    return new Uint8Array(byteCount).fill(calls < 3 ? 248 : 247)
  })
  expect(key).toBe(`svc_live_${'z'.repeat(24)}`)
  expect(calls).toBe(3)
})

test('only the exact form is a key', () => {
  const key = `svc_live_${'aB3'.repeat(8)}`
  expect(isWellFormedKey(key)).toBe(true)
  for (const wrong of [
    `${key}a`,
    key.slice(0, -1),
    `${key}\n`,
    ` ${key}`,
    key.replace('svc', 'sk'),
    '',
    `${key},${key}`,
  ]) {
    expect(isWellFormedKey(wrong)).toBe(false)
  }
  expect(isWellFormedKey(`svc_live_${'aB-'.repeat(8)}`)).toBe(false)
})

test('the hash is SHA-256 of the whole key', () => {
  const key = drawKey(randomBytes)
  expect(hashKey(key)).toBe(createHash('sha256').update(key).digest('hex'))
})

test.each([
  [null, null, 'active'],
  [1_001, null, 'active'],
  [1_000, null, 'expired'],
  [999, null, 'expired'],
  [null, 1, 'revoked'],
  [999, 1, 'revoked'],
] as const)('a key that expires at %p and was revoked at %p is %s at 1000', (expiresAtMs, revokedAtMs, state) => {
  expect(keyStateAt({ expiresAtMs, revokedAtMs }, 1_000)).toBe(state)
})
