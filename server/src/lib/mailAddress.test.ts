import { expect, test } from 'bun:test'
import { z } from 'zod'
import { readMailAddress } from './mailAddress.ts'

test.each([
  ['ada@example.com', 'ada@example.com'],
  [' Ada.Lovelace+bills@Mail.Example.COM ', 'ada.lovelace+bills@mail.example.com'],
  ["o'brien@example.ie", "o'brien@example.ie"],
  ['a@xn--bcher-kva.example', 'a@xn--bcher-kva.example'],
  ['1_-@a.b.cd', '1_-@a.b.cd'],
])('%p is an address', (text, expected) => {
  expect(readMailAddress(text)).toBe(expected)
})

test.each([
  ['a host alone', 'admin@localhost'],
  ['an address of the network', 'admin@127.0.0.1'],
  ['one in brackets', 'admin@[127.0.0.1]'],
  ['a domain in other letters', 'ada@b\u00fccher.example'],
  ['a name in other letters', 'ad\u00e4@example.com'],
  ['a letter that becomes ASCII in lower case', 'ada@example.\u212aiwi'],
  ['a top-level domain with digits', 'ada@example.xn--p1ai'],
  ['two dots', 'a..b@example.com'],
  ['a dot first', '.a@example.com'],
  ['a dot last', 'a.@example.com'],
  ['a label with a dash last', 'a@example-.com'],
  ['a slash', 'a/b@example.com'],
  ['no name', '@example.com'],
  ['two signs', 'a@b@example.com'],
  ['a space', 'a b@example.com'],
  ['a line break', 'ada@example.com\nBcc: eve@example.com'],
  ['NUL', 'ada\0@example.com'],
  ['half a character', 'ada\ud800@example.com'],
  ['a name of 65 characters', `${'a'.repeat(65)}@example.com`],
  ['255 characters', `a@${'b.'.repeat(125)}com`],
  ['nothing', ''],
])('%s is none', (_name, text) => {
  expect(readMailAddress(text)).toBeNull()
})

test('sign-in takes every address that is taken: better-auth holds it against this rule', () => {
  const alphabet = "aZ0.-_+'@@.. \u00fc/!"
  let [state, taken] = [1, 0]
  const next = (below: number) => {
    state = (state * 48_271) % 2_147_483_647
    return state % below
  }
  const word = (atMost: number) =>
    Array.from({ length: 1 + next(atMost) }, () => alphabet[next(alphabet.length)]).join('')
  for (let count = 0; count < 50_000; count += 1) {
    const text = next(2) === 0 ? word(12) : `${word(4)}@${word(5)}.${['com', 'x', 'c0m', 'museum'][next(4)]}`
    const address = readMailAddress(text)
    if (address === null) continue
    taken += 1
    expect([address, z.email().safeParse(address).success]).toEqual([address, true])
  }
  expect(taken).toBeGreaterThan(50)
})
