import { expect, test } from 'bun:test'
import { parseWhole } from './body.ts'

const parse = (text: string) => {
  const parsed = parseWhole(new TextEncoder().encode(text))
  return parsed.ok ? parsed.value : parsed.refusal.message
}

test.each([['{"a":"\\"[[","b":"\\\\","c":["]"]}'], ['[]'], ['"\\\\\\""']])('%s is what JSON makes of it', (text) => {
  expect(parse(text)).toEqual(JSON.parse(text))
})

/** An object of as many fields, each of another name. */
function fields(count: number): string {
  return `{${Array.from({ length: count }, (_, index) => `"f${index}":1`).join(',')}}`
}

test.each([
  ['', 'The request body is empty; send a JSON object.'],
  ['{"a":', 'The request body is not valid JSON.'],
  ['{"a', 'The request body is not valid JSON.'],
  ['['.repeat(65) + ']'.repeat(65), 'The request body nests deeper than 64 levels.'],
  [`[${'0,'.repeat(65_536)}0]`, 'The request body holds more than 65536 values; send it in parts.'],
  [`[${'[],'.repeat(32_767)}[]]`, 'The request body holds more than 32768 objects and lists; send it in parts.'],
  [
    `[${`${'['.repeat(60)}${']'.repeat(60)},`.repeat(547)}0]`,
    'The request body holds more than 32768 objects and lists; send it in parts.',
  ],
  [
    `[${fields(512)},${fields(512).replaceAll('f', 'g')},${fields(512).replaceAll('f', 'h')},{"i":1}]`,
    'The fields of the request body have more than 1024 different names; send only fields that the description has.',
  ],
  [fields(513), 'An object in the request body has more than 512 fields; send fewer.'],
  [`{"a":[{"b":${fields(513)}}]}`, 'An object in the request body has more than 512 fields; send fewer.'],
  [`{"a":{},${fields(512).slice(1)}`, 'An object in the request body has more than 512 fields; send fewer.'],
  [`${'}'.repeat(9)}${fields(513)}`, 'The request body is not valid JSON.'],
  [':'.repeat(513), 'An object in the request body has more than 512 fields; send fewer.'],
  [
    `{"a":1,"${'n'.repeat(257)}":1}`,
    'The name of a field in the request body is longer than 256 characters; send a shorter one.',
  ],
])('%#: refused', (text, message) => {
  expect(parse(text)).toBe(message)
})

test('brackets and commas within texts count for nothing', () => {
  const text = JSON.stringify({ input: ['['.repeat(1_000), ','.repeat(100_000), '"['.repeat(1_000)] })
  expect(parse(text)).toEqual(JSON.parse(text))
})

test('fields count for the object that has them, and colons within texts for nothing', () => {
  const most = fields(512)
  const text = `{"a":[${most},${most}],"b":${most},"${'n'.repeat(256)}":"${':'.repeat(600)}","${'\\"'.repeat(128)}":{"c":${most}}}`
  expect(parse(text)).toEqual(JSON.parse(text))
})

test('a conversation of thirty thousand messages, and many objects of the same fields, are parsed', () => {
  const message = '{"role":"user","content":"x"}'
  const text = `{"messages":[${Array(30_000).fill(message).join(',')}]}`
  expect(parse(text)).toEqual(JSON.parse(text))
  const same = `[${Array(100).fill(fields(512)).join(',')}]`
  expect(parse(same)).toEqual(JSON.parse(same))
})
