/**
 * Bodies that are made to hold the event loop: how much of them is worked on within one turn of it, by count and not by time. A call of
 * another customer needs some turns, and waits for as long as they take.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { z } from 'zod'
import { ISSUES_MOST } from '../../src/http/boundedList.ts'
import { type Gateway, openGateway } from '../gateway.ts'

/** A body of 32 KiB behind 8 KiB of others: each byte is decoded once and parsed once. */
const BYTES_A_TURN_MOST = 2 * (40 << 10)
/** A wrong message may have some issues more than are sought. */
const ISSUES_A_BODY_MOST = ISSUES_MOST + 5

let gateway: Gateway
beforeAll(async () => {
  gateway = await openGateway()
})
afterAll(() => gateway.close())

/** The work on bodies that this thread does; that of other threads holds nobody. */
interface Work {
  /** Bytes that were decoded or parsed within one turn of the event loop, at most. */
  readonly bytesATurn: number
  /** Problems that were put into words. */
  readonly issues: number
  /** Forms that were parsed. */
  readonly forms: number
}

/** Counts the work that goes on until `during` has ended. */
async function workOf(during: () => Promise<void>): Promise<Work> {
  const seen = { bytesATurn: 0, issues: 0, forms: 0 }
  let bytes = 0
  const add = (more: number) => {
    bytes += more
    seen.bytesATurn = Math.max(seen.bytesATurn, bytes)
  }
  const { parse } = JSON
  const { decode } = TextDecoder.prototype
  const { formData } = Response.prototype
  const { localeError } = z.config()
  JSON.parse = (text, ...more) => {
    add(String(text).length)
    return parse(text, ...more)
  }
  TextDecoder.prototype.decode = function (input, options) {
    add(input?.byteLength ?? 0)
    return decode.call(this, input, options)
  }
  Response.prototype.formData = function () {
    seen.forms += 1
    return formData.call(this)
  }
  z.config({
    localeError: (issue) => {
      seen.issues += 1
      return localeError?.(issue)
    },
  })
  let isOver = false
  const nextTurn = () => {
    bytes = 0
    if (!isOver) setImmediate(nextTurn)
  }
  setImmediate(nextTurn)
  try {
    await during()
  } finally {
    isOver = true
    z.config({ localeError })
    Response.prototype.formData = formData
    TextDecoder.prototype.decode = decode
    JSON.parse = parse
  }
  return seen
}

interface Attack {
  readonly body: string | Uint8Array<ArrayBuffer>
  readonly status: number
  readonly atOnce?: number
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
}

const GZIP = { 'Content-Encoding': 'gzip' }
const FORM = { 'Content-Type': 'multipart/form-data; boundary=b' }

const chatOf = (messages: unknown) => JSON.stringify({ model: 'svc/sandbox', messages })
const wrong = (count: number) => chatOf(Array.from({ length: count }, () => ({ role: 'x' })))
const packed = (text: string) => new Uint8Array(gzipSync(text))
const parts = (count: number) =>
  `${'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'.repeat(count)}--b--\r\n`
/** 99 fields of one letter of two bytes are the slowest to parse: 0.17 s on the event loop. */
const wideForm = `${Array.from({ length: 99 }, (_, index) => `--b\r\nContent-Disposition: form-data; name="f${index}"\r\n\r\n${'é'.repeat(39_000)}\r\n`).join('')}--b--\r\n`
const nested = (depth: number) => `{"messages":${'['.repeat(depth)}${']'.repeat(depth)}}`
const large = chatOf([{ role: 'user', content: 'word \n '.repeat(990_000) }])

const EMBEDDINGS = {
  path: '/embeddings',
  body: JSON.stringify({ model: 'svc/sandbox-embedding', input: Array(60_000).fill(0) }),
}

const ATTACKS: readonly (readonly [string, Attack])[] = [
  ['2 KB of gzip that unfold to 32,000 wrong messages', { body: packed(wrong(32_000)), status: 422, headers: GZIP }],
  ['gzip of as many wrong messages as may be', { body: packed(wrong(10_000)), status: 422, headers: GZIP }],
  ['wrong messages in 26 KB', { body: wrong(2_000), status: 422, atOnce: 20 }],
  ['a form of 100,000 parts', { body: parts(100_000), status: 400, atOnce: 3, path: '/videos', headers: FORM }],
  ['a form of 8 MB', { body: wideForm, status: 400, atOnce: 2, path: '/videos', headers: FORM }],
  ['8 MB to the sandbox', { body: large, status: 400, atOnce: 2 }],
  ['8 MB under an Idempotency-Key', { body: large, status: 400, atOnce: 1, headers: { 'Idempotency-Key': 'k' } }],
  ['100,000 small values', { body: chatOf(Array(100_000).fill(0)), status: 400 }],
  ['100,000 small values in gzip', { body: packed(chatOf(Array(100_000).fill(0))), status: 400, headers: GZIP }],
  ['as many small values as a body may have, to embed', { ...EMBEDDINGS, status: 400 }],
  ['lists within each other in 30 KB', { body: nested(15_000), status: 400, atOnce: 20 }],
  ['lists within each other in 2 MB', { body: nested(1_000_000), status: 400 }],
  ['many short lists in 26 KB', { body: chatOf(Array(8_000).fill([])), status: 422, atOnce: 20 }],
]

test.each(ATTACKS)('%s: worked on in many turns, and to the first wrong things alone', async (_, attack) => {
  const { body, status, path = '/chat/completions', atOnce = 4, headers = {} } = attack
  const { key } = await gateway.customer()
  const statuses: number[] = []
  const send = async (index: number) => {
    const own = headers['Idempotency-Key'] === undefined ? {} : { 'Idempotency-Key': `k${index}` }
    const length = { 'Content-Length': `${Buffer.byteLength(body)}` }
    const all = { Authorization: `Bearer ${key}`, ...length, ...headers, ...own }
    const answer = await gateway.send(path, { method: 'POST', headers: all, body })
    await answer.body?.cancel()
    statuses.push(answer.status)
  }
  const work = await workOf(async () => {
    await Promise.all(Array.from({ length: atOnce }, (_each, index) => send(index)))
  })
  expect(statuses).toEqual(Array(atOnce).fill(status))
  expect(work.bytesATurn).toBeLessThanOrEqual(BYTES_A_TURN_MOST)
  expect(work.issues).toBeLessThanOrEqual(ISSUES_A_BODY_MOST * atOnce)
  expect(work.forms).toBe(0)
})
