import { expect, test } from 'bun:test'
import { requestIdOf } from './requestId.ts'

const random = (length: number) => new Uint8Array(length).fill(0xab)
const GENERATED = 'ab'.repeat(16)

test.each<[string, string | null | undefined, string]>([
  ['none', null, GENERATED],
  ['an empty one', '', GENERATED],
  ['a plain one', 'req-1', 'req-1'],
  ['every visible character', `!"#$%&'()*+,-./:;<=>?@[\\]^_\`{|}~`, `!"#$%&'()*+,-./:;<=>?@[\\]^_\`{|}~`],
  ['a space inside', 'my request', 'my request'],
  ['128 characters', 'x'.repeat(128), 'x'.repeat(128)],
  ['129 characters', 'x'.repeat(129), GENERATED],
  ['a tab', 'a\tb', GENERATED],
  ['a line break', 'a\nSet-Cookie: b', GENERATED],
  ['a NUL', 'a\0b', GENERATED],
  ['DEL', 'a\x7f', GENERATED],
  ['a byte above 127', 'caf\xe9', 'caf\xe9'],
  ['the bytes of UTF-8, each read as a character', 'caf\xc3\xa9 \xf0\x9f\x98\x80', 'caf\xc3\xa9 \xf0\x9f\x98\x80'],
  ['128 bytes above 127', '\xff'.repeat(128), '\xff'.repeat(128)],
  ['129 bytes above 127', '\xff'.repeat(129), GENERATED],
  ['what a header can not hold', 'ключ', GENERATED],
])('%s', (_name, header, expected) => {
  expect(requestIdOf(header, random)).toBe(expected)
})
