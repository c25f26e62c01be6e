import { afterAll, describe, expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { exchangeOf, pipelineParts } from '../../../test/exchange.ts'
import { bodyBytes, dropBytes, formBody, jsonBody, uncompressed } from './body.ts'

const parts = pipelineParts()
afterAll(() => parts.bodyWork.close())
const bytesOf = (text: string) => new TextEncoder().encode(text)
const post = (body: BodyInit, headers: HeadersInit = {}) => ({ method: 'POST', body, headers })

describe('bytes', () => {
  test('are read whole', async () => {
    const exchange = exchangeOf('/v1/things', post('{"a":1}'))
    expect(await bodyBytes(parts, 1_024)(exchange)).toBeNull()
    expect(exchange.bytes).toEqual(bytesOf('{"a":1}'))
  })

  test('are refused beyond the limit, while they are read', async () => {
    let pulled = 0
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled += 1
        controller.enqueue(new Uint8Array(1_024))
      },
    })
    const exchange = exchangeOf('/v1/things', post(endless))
    expect((await bodyBytes(parts, 4_096)(exchange))?.code).toBe('request_too_large')
    expect(pulled).toBeLessThan(10)
    expect([exchange.bytes.byteLength, exchange.idleTimeouts]).toEqual([0, []])
  })

  test('are decompressed, except where a route takes them as they came', async () => {
    const compressed = post(gzipSync('{}'), { 'Content-Encoding': 'gzip' })
    const exchange = exchangeOf('/v1/things', compressed)
    await bodyBytes(parts, 1_024)(exchange)
    expect(exchange.bytes).toEqual(bytesOf('{}'))
    expect((await uncompressed(exchangeOf('/v1/things', compressed)))?.code).toBe('validation_failed')
    expect(await uncompressed(exchangeOf('/v1/things', post('{}', { 'Content-Encoding': 'identity' })))).toBeNull()
    expect(await uncompressed(exchangeOf('/v1/things', post('{}')))).toBeNull()
  })

  test('are let go once they are parsed', async () => {
    const exchange = exchangeOf('/v1/things', {}, { bytes: bytesOf('{}') })
    expect(await dropBytes(exchange)).toBeNull()
    expect(exchange.bytes.byteLength).toBe(0)
  })
})

describe('JSON', () => {
  test.each([
    ['{"a":[1]}', 'A', { a: [1] }],
    ['{', 'A', 'validation_failed'],
    ['{', 'B', 'invalid_request'],
    ['', 'B', 'invalid_request'],
  ] as const)('%p in envelope %s', async (text, envelope, expected) => {
    const exchange = exchangeOf('/v1/things', {}, { bytes: bytesOf(text), envelope })
    const refused = await jsonBody(parts)(exchange)
    expect<unknown>(refused === null ? exchange.body : refused.code).toEqual(expected)
  })

  test.each(['', ' ', ' \t\r\n '])('that is optional is empty where it is %j', async (text) => {
    const exchange = exchangeOf('/v1/things', {}, { bytes: bytesOf(text) })
    expect(await jsonBody(parts, true)(exchange)).toBeNull()
    expect(exchange.body).toEqual({})
  })

  test('that is optional is refused where it has more than white space, and is no JSON', async () => {
    const exchange = exchangeOf('/v1/things', {}, { bytes: bytesOf('  {'), envelope: 'A' })
    expect((await jsonBody(parts, true)(exchange))?.code).toBe('validation_failed')
  })

  test('is parsed at once where it is small, and by the thread where it is large', async () => {
    expect(jsonBody(parts)(exchangeOf('/v1/things', {}, { bytes: bytesOf('{}') }))).toBeNull()
    const large = exchangeOf('/v1/things', {}, { bytes: bytesOf(JSON.stringify({ a: 'x'.repeat(300_000) })) })
    const parsing = jsonBody(parts)(large)
    expect(parsing).toBeInstanceOf(Promise)
    expect(await parsing).toBeNull()
    expect(large.body).toEqual({ a: 'x'.repeat(300_000) })
  })
})

test('a form is read as one where its Content-Type says so, and as JSON else', async () => {
  const form = new FormData()
  form.set('a', '1')
  const sent = new Response(form)
  const headers = { 'Content-Type': sent.headers.get('Content-Type') ?? '' }
  const bytes = new Uint8Array(await sent.arrayBuffer())
  const asForm = exchangeOf('/v1/things', { headers }, { bytes })
  expect(await formBody(parts)(asForm)).toBeNull()
  expect(asForm.body).toEqual([{ name: 'a', value: '1' }])
  const asJson = exchangeOf('/v1/things', {}, { bytes: bytesOf('{"a":1}') })
  expect(await formBody(parts)(asJson)).toBeNull()
  expect(asJson.body).toEqual({ a: 1 })
  const broken = exchangeOf('/v1/things', { headers }, { bytes: bytesOf('no form') })
  expect((await formBody(parts)(broken))?.code).toBe('validation_failed')
})

test('a large form is parsed by the thread, and its bytes come back', async () => {
  const { formData } = Response.prototype
  let parsedHere = 0
  Response.prototype.formData = function () {
    parsedHere += 1
    return formData.call(this)
  }
  try {
    for (const [length, isHere] of [
      [30_000, 1],
      [40_000, 0],
    ] as const) {
      const headers = { 'Content-Type': 'multipart/form-data; boundary=b' }
      const value = 'é'.repeat(length / 2)
      const bytes = bytesOf(`--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n${value}\r\n--b--\r\n`)
      const sent = bytes.slice()
      const exchange = exchangeOf('/v1/things', { headers }, { bytes })
      parsedHere = 0
      expect(await formBody(parts)(exchange)).toBeNull()
      expect<unknown>(exchange.body).toEqual([{ name: 'a', value }])
      expect([exchange.bytes, parsedHere]).toEqual([sent, isHere])
    }
  } finally {
    Response.prototype.formData = formData
  }
})

test('files of a form are refused at once, or left to who validates the fields', async () => {
  const form = new FormData()
  form.append('a', '1')
  form.append('f', new Blob(['x']))
  const sent = new Response(form)
  const headers = { 'Content-Type': sent.headers.get('Content-Type') ?? '' }
  const bytes = new Uint8Array(await sent.arrayBuffer())
  const refused = { code: 'unsupported_parameter', param: 'f', message: "'f' is a file; files are not accepted." }
  expect(await formBody(parts)(exchangeOf('/v1/things', { headers }, { bytes }))).toMatchObject(refused)
  const left = exchangeOf('/v1/things', { headers }, { bytes })
  expect(await formBody(parts, true)(left)).toBeNull()
  expect(left.unsupported).toMatchObject(refused)
  expect(left.body).toEqual([{ name: 'a', value: '1' }])
})
