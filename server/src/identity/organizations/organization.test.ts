import { expect, test } from 'bun:test'
import { parseOrganizationName } from './organization.ts'

test.each([
  ['default'],
  ['Acme'],
  ['acme-2'],
  ["O'Brien & Co. (EU)"],
  ['Acme.com: R/D'],
  ['Acme Inc.'],
  ["St. John's"],
  ['node.js'],
  ['booking.com'],
  ['Acme Inc./Beta'],
  ['S.p.A./GmbH'],
  ['Version 2.0/3'],
  ['Awww. Toys'],
  ['東京 ラボ'],
  ['7'],
  ['a'.repeat(64)],
])('%p can name an organization', (name) => {
  expect(parseOrganizationName(name)).toEqual({ ok: true, value: name })
})

test.each([
  [''],
  [' '],
  ['-x'],
  ['--org'],
  [' a'],
  ['a '],
  ['a  b'],
  ['a\nb'],
  ['a\u0000'],
  ['a\u200bb'],
  ['a\u00a0b'],
  ['a'.repeat(65)],
])('%p can not', (name) => {
  const parsed = parseOrganizationName(name)
  expect(parsed).toMatchObject({ ok: false, refusal: { code: 'validation_failed', param: 'name' } })
  if (!parsed.ok) expect(parsed.refusal.message).toContain('1 to 64 characters')
})

test('an id is no name: organizations that registered themselves are called by theirs', () => {
  expect(parseOrganizationName('0190B6B0-0000-7000-8000-000000000001')).toMatchObject({
    ok: false,
    refusal: { code: 'validation_failed', param: 'name' },
  })
})

test.each([
  ['Claim $500 at https://evil.example/win now'],
  ['9 invoices due: HTTP://evil.example'],
  ['x://y'],
  ['Account locked, go to www.evil.example/login'],
  ['Account locked, go to WWW.evil.example'],
  ['Account locked, go to evil.example/login'],
  ['Account locked: evil.xn--p1ai:8443/a'],
  ['Account locked: ｗｗｗ．evil．example'],
])('%p can not: a name stands in mails to strangers', (name) => {
  const parsed = parseOrganizationName(name)
  expect(parsed).toMatchObject({ ok: false, refusal: { code: 'validation_failed', param: 'name' } })
  if (!parsed.ok) expect(parsed.refusal.message).toContain('address of a page')
})

test('one name has one spelling', () => {
  expect(parseOrganizationName('Cafe\u0301')).toEqual({ ok: true, value: 'Caf\u00e9' })
})

test('a long hostile name is refused quickly and is not quoted whole', () => {
  const parsed = parseOrganizationName(`a${' b'.repeat(100_000)}  `)
  expect(!parsed.ok && parsed.refusal.message.length).toBeLessThan(400)
})
