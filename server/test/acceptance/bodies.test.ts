/** E6 and E10: bodies as bytes, before anything in them is looked at. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { deflateSync, gzipSync } from 'node:zlib'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { chat, SETTINGS } from './catalog.ts'
import { type Expected, expectRefusal } from './refusals.ts'

const path = '/chat/completions'
const LIMIT_BYTES = 65_536
let gateway: AskedGateway
let key: string

beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS })
  key = (await gateway.customer()).key
})
afterAll(() => gateway.close())

const GOOD = JSON.stringify(chat())
const bytes = (text: string) => new TextEncoder().encode(text)
const invalid: Expected = { status: 400, code: 'invalid_request' }
const tooLarge: Expected = { status: 413, code: 'request_too_large', says: /65536 bytes/ }

/** A good request of exactly so many bytes. */
function ofLength(length: number): string {
  return GOOD.padEnd(length, ' ')
}

/** Sent piece by piece, without a length. */
function stream(...pieces: Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    pull(controller) {
      const piece = pieces.shift()
      if (piece === undefined) controller.close()
      else controller.enqueue(piece)
    },
  })
}

describe('a body that is no JSON', () => {
  const rows: [string, string | Uint8Array, RegExp][] = [
    ['empty', '', /empty/],
    ['blank', ' \r\n\t', /empty/],
    ['cut off', GOOD.slice(0, -1), /not valid JSON/],
    ['two documents', GOOD + GOOD, /not valid JSON/],
    ['a trailing comma', GOOD.replace('}', ',}'), /not valid JSON/],
    ['a comment', `// hello\n${GOOD}`, /not valid JSON/],
    ['single quotes', GOOD.replaceAll('"', "'"), /not valid JSON/],
    ['NaN', GOOD.replace('{', '{"temperature":NaN,'), /not valid JSON/],
    ['a form', 'model=svc%2Fdemo&messages=hello', /not valid JSON/],
    ['a control character in text', GOOD.replace('Hello', 'He\nllo'), /not valid JSON/],
    ['bytes that are no UTF-8', new Uint8Array([...bytes('{"model":"'), 0xff, ...bytes('"}')]), /UTF-8/],
    ['a character cut in half', new Uint8Array([...bytes('{"model":"'), 0xc3]), /UTF-8/],
    ['UTF-16', new Uint8Array(Buffer.from(`\ufeff${GOOD}`, 'utf16le')), /UTF-8/],
    ['a NUL', '\0', /not valid JSON/],
    ['deep lists', `${'['.repeat(65)}${']'.repeat(65)}`, /deeper than 64/],
    ['deep lists without end', '['.repeat(60_000), /deeper than 64/],
    ['deep objects', `${'{"a":'.repeat(65)}1${'}'.repeat(65)}`, /deeper than 64/],
  ]
  test.each(rows)('%s', async (_name, body, says) => {
    expectRefusal(await gateway.ask({ path, key, body }), 'B', { ...invalid, says })
  })
})

describe('a body that is JSON', () => {
  const rows: [string, string | Uint8Array, Record<string, string>?][] = [
    ['whatever the Content-Type says', GOOD, { 'Content-Type': 'text/plain' }],
    ['and a form by its Content-Type', GOOD, { 'Content-Type': 'multipart/form-data; boundary=x' }],
    ['without a Content-Type', bytes(GOOD)],
    ['after a byte order mark', `\ufeff${GOOD}`],
    ['with white space around', ` \n${GOOD}\n `],
    ['with escapes', GOOD.replace('Hello', '\\u0048\\uD83D\\uDE00 [[[[\\"{{{{\\\\')],
    ['with half a surrogate pair', GOOD.replace('Hello', '\\ud800')],
    ['with a key twice: the last counts', GOOD.replace('{', '{"model":"svc/none",')],
    ['full of brackets in text', JSON.stringify(chat({}, '[{'.repeat(5_000)))],
    ['as large as may be', ofLength(LIMIT_BYTES)],
    ['announced as identity', GOOD, { 'Content-Encoding': 'identity' }],
  ]
  test.each(rows)('%s', async (_name, body, headers = {}) => {
    expect((await gateway.ask({ path, key, body, headers })).status).toBe(200)
  })

  test('nested 64 deep is looked at', async () => {
    const body = `{"deep":${'['.repeat(63)}${']'.repeat(63)},${GOOD.slice(1)}`
    const expected = { status: 400, code: 'unsupported_parameter', param: 'deep' }
    expectRefusal(await gateway.ask({ path, key, body }), 'B', expected)
  })
})

describe('the limit of 65536 bytes', () => {
  test.each<[string, string | Uint8Array | ReadableStream<Uint8Array>, Record<string, string>?]>([
    ['one byte more', ofLength(LIMIT_BYTES + 1)],
    ['in pieces', stream(bytes(ofLength(LIMIT_BYTES)), bytes(' '))],
    ['in pieces of several bytes a character', stream(bytes('é'.repeat(LIMIT_BYTES / 2)), bytes(' '))],
    ['announced, nothing sent', '', { 'Content-Length': `${LIMIT_BYTES + 1}` }],
    ['announced beyond all numbers', '', { 'Content-Length': '9'.repeat(40) }],
    ['a gzip bomb', gzipSync(Buffer.alloc(100 << 20)), { 'Content-Encoding': 'gzip' }],
    ['a deflate bomb', deflateSync(Buffer.alloc(40 << 20, 32)), { 'Content-Encoding': 'deflate' }],
    ['one byte more, decompressed', gzipSync(ofLength(LIMIT_BYTES + 1)), { 'Content-Encoding': 'gzip' }],
  ])('%s', async (_name, body, headers = {}) => {
    expectRefusal(await gateway.ask({ path, key, body, headers }), 'B', tooLarge)
  })

  test('a body without end is not read on', async () => {
    let pieces = 0
    let cancelled = false
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        pieces += 1
        controller.enqueue(new Uint8Array(1_024).fill(0x20))
      },
      cancel() {
        cancelled = true
      },
    })
    expectRefusal(await gateway.ask({ path, key, body }), 'B', tooLarge)
    expect(pieces).toBeLessThan(100)
    expect(cancelled).toBe(true)
  })

  test('exactly as many, in pieces', async () => {
    const whole = bytes(ofLength(LIMIT_BYTES))
    const body = stream(whole.slice(0, 1), whole.slice(1, 40_000), whole.slice(40_000))
    expect((await gateway.ask({ path, key, body })).status).toBe(200)
  })
})

describe('Content-Encoding', () => {
  const gzip = { 'Content-Encoding': 'gzip' }
  test.each<[string, Uint8Array, Record<string, string>]>([
    ['gzip', gzipSync(GOOD), gzip],
    ['GZIP', gzipSync(GOOD), { 'Content-Encoding': 'GZIP' }],
    ['x-gzip', gzipSync(GOOD), { 'Content-Encoding': 'x-gzip' }],
    ['deflate', deflateSync(GOOD), { 'Content-Encoding': 'deflate' }],
  ])('%s is taken', async (_name, body, headers) => {
    expect((await gateway.ask({ path, key, body, headers })).status).toBe(200)
  })

  test.each<[string, string | Uint8Array, Record<string, string>]>([
    ['that is not known', GOOD, { 'Content-Encoding': 'zstd' }],
    ['several', gzipSync(gzipSync(GOOD)), { 'Content-Encoding': 'gzip, gzip' }],
    ['that is a name of the language', GOOD, { 'Content-Encoding': 'constructor' }],
    ['that is not what was sent', GOOD, gzip],
    ['cut off', gzipSync(GOOD).subarray(0, -10), gzip],
    ['of nothing', new Uint8Array(), gzip],
    ['not announced', gzipSync(GOOD), {}],
  ])('%s is refused', async (_name, body, headers) => {
    expectRefusal(await gateway.ask({ path, key, body, headers }), 'B', invalid)
  })
})
