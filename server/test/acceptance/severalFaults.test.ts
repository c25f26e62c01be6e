/** Requests that are wrong in their query and in their body: E17. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { chat, SETTINGS } from './catalog.ts'
import { expectRefusal } from './refusals.ts'
import { HOOK, HOOKS } from './webhookRows.ts'

let gateway: AskedGateway
let key: string
let admin: string

beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS })
  key = (await gateway.customer()).key
  admin = (await gateway.customer({ admin: true })).key
})
afterAll(() => gateway.close())

describe('parameters in query and body that are not supported are named in one message (E17)', () => {
  test.each([
    [{ stop: 'x', n: 1 }, /'a' and 'b' are not known here.* 'stop' and 'n' are not supported/],
    [{}, /'a' and 'b' are not known here: this path takes none\.$/],
    // They go before a wrong value.
    [{ temperature: 'hot' }, /'a' and 'b' are not known here: this path takes none\.$/],
  ])('of a chat request: %p', async (more, says) => {
    const expected = { status: 400, code: 'unsupported_parameter', param: 'a', says }
    for (const headers of [{}, { 'Idempotency-Key': 'both' }]) {
      const answer = await gateway.ask({ path: '/chat/completions?a=1&b', key, headers, body: chat(more) })
      expectRefusal(answer, 'B', expected)
    }
  })

  test.each([
    [{ monthly_limit_dollars: 0, c: 1 }, /'a' is not known here: this path takes none\. There is no field 'c' here/],
    [{ monthly_limit_dollars: 5, b: 1, c: 1 }, /'a' is not known here: .* There are no fields 'b' and 'c' here/],
    [{ monthly_limit_dollars: 5 }, /^The query parameter 'a' is not known here: this path takes none\.$/],
  ])('of a PUT, which changes nothing: %p', async (body, says) => {
    const path = '/billing/spending-limit'
    const answer = await gateway.ask({ method: 'PUT', path: `${path}?a=1`, key: admin, body })
    expectRefusal(answer, 'A', { status: 422, code: 'validation_failed', says })
    expect((await gateway.ask({ path, key: admin })).status).toBe(404)
  })

  test('of a request in envelope A', async () => {
    const headers = { 'Idempotency-Key': 'both' }
    const answer = await gateway.ask({ path: `${HOOKS}?a=1`, key, headers, body: { ...HOOK, c: 1 } })
    expectRefusal(answer, 'A', { status: 422, code: 'validation_failed', says: /'a' is not known here.* no field 'c'/ })
  })
})

describe('files of a form are named with all else that is not supported (E17)', () => {
  const good: [string, string | Blob][] = [
    ['model', 'svc/none'],
    ['prompt', 'a cat'],
  ]
  const file = new Blob(['x'])
  test.each<[string, [string, string | Blob][], string, RegExp]>([
    ['', [['image', file]], 'image', /^'image' is a file; files are not accepted\.$/],
    [
      '',
      [
        ['foo', '1'],
        ['image', file],
      ],
      'image',
      /'image' is a file;.* The parameter 'foo' is not supported here/,
    ],
    [
      '',
      [
        ['image', file],
        ['mask', file],
        ['image', file],
      ],
      'image',
      /^'image' and 'mask' are files; files are not accepted\.$/,
    ],
    [
      '',
      [
        ['image', file],
        ['prompt', 'a dog'],
        ['foo', '1'],
      ],
      'image',
      /'image' is a file;.* 'foo' is not supported here/,
    ],
    [
      '',
      [
        ['prompt', 'a dog'],
        ['foo', '1'],
      ],
      'foo',
      /^The parameter 'foo' is not supported here/,
    ],
    [
      '',
      [
        ['seconds', 'x'],
        ['image', file],
      ],
      'image',
      /^'image' is a file; files are not accepted\.$/,
    ],
    [
      '?a=1',
      [
        ['image', file],
        ['foo', '1'],
      ],
      'a',
      /'a' is not known here.* 'image' is a file;.* 'foo' is not supported/,
    ],
    [
      '?a=1',
      [['image', file]],
      'a',
      /'a' is not known here: this path takes none\. 'image' is a file; files are not accepted\.$/,
    ],
  ])('%s %p', async (query, more, param, says) => {
    const form = new FormData()
    for (const [name, value] of [...good, ...more]) form.append(name, value)
    for (const once of [{}, { 'Idempotency-Key': 'files' }]) {
      const headers = { Authorization: `Bearer ${key}`, ...once }
      const answer = await gateway.send(`/videos${query}`, { method: 'POST', headers, body: form })
      const { error } = (await answer.json()) as { error: { message: string } }
      expect({ status: answer.status, error }).toMatchObject({
        status: 400,
        error: { code: 'unsupported_parameter', param },
      })
      expect(error.message).toMatch(says)
    }
  })
})

test('nothing is kept for the key of such a request', async () => {
  const headers = { 'Idempotency-Key': 'mended' }
  const body = chat()
  expect((await gateway.ask({ path: '/chat/completions?a=1', key, headers, body })).status).toBe(400)
  expect((await gateway.ask({ path: '/chat/completions', key, headers, body })).status).toBe(200)
})

test('a parameter that the model does not take goes before the value of another that is out of its range', async () => {
  const body = { model: 'svc/film', prompt: 'a gate', size: '64x64', seconds: 99 }
  const answer = await gateway.ask({ path: '/videos', key, headers: { 'Idempotency-Key': 'untaken' }, body })
  expectRefusal(answer, 'B', { status: 400, code: 'unsupported_parameter', param: 'size', says: /takes no 'size'/ })
})
