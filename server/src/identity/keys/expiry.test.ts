import { expect, test } from 'bun:test'
import { parseExpiry } from './expiry.ts'

const NOW_MS = Date.parse('2030-01-15T12:00:00Z')

test.each([
  ['30d', '2030-02-14T12:00:00.000Z'],
  ['12h', '2030-01-16T00:00:00.000Z'],
  ['90m', '2030-01-15T13:30:00.000Z'],
  ['2w', '2030-01-29T12:00:00.000Z'],
  ['2031-12-31', '2031-12-31T00:00:00.000Z'],
  ['2031-12-31T18:00:00Z', '2031-12-31T18:00:00.000Z'],
  ['2031-12-31T18:00+02:00', '2031-12-31T16:00:00.000Z'],
])('%s expires at %s', (text, expected) => {
  const expiry = parseExpiry(text, NOW_MS)
  expect(expiry.ok && new Date(expiry.value).toISOString()).toBe(expected)
})

test.each([
  [''],
  ['30'],
  ['0d'],
  ['-1d'],
  ['1.5d'],
  ['30 days'],
  ['9999999w'],
  ['2031-02-30'],
  ['2031-13-01'],
  ['2031-12-31T18:00:00'],
  ['2031-12-31T25:00:00Z'],
  ['2030-01-15'],
  ['2030-01-15T12:00:00Z'],
  ['tomorrow'],
])('the expiry %p is refused', (text) => {
  expect(parseExpiry(text, NOW_MS)).toMatchObject({
    ok: false,
    refusal: { code: 'validation_failed', param: 'expires' },
  })
})
