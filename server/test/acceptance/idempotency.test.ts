/** Section 8 of the interface, rules 1 to 5, on the paid endpoint; gaps D1 to D5 and C3. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DAY_MS } from '../../src/lib/time.ts'
import type { TestKey } from '../gateway.ts'
import { SetClock } from '../setClock.ts'
import { type AskedGateway, openAskedGateway, type Question } from './ask.ts'
import { chat, directed, film, picture, SETTINGS, words } from './catalog.ts'
import type { Answer } from './description.ts'
import { expectRefusal } from './refusals.ts'

const path = '/chat/completions'
const COST = 'Svc-Cost-Microcents'
const clock = new SetClock(Date.UTC(2026, 4, 4, 12))
/** Requests that are answered with a 409 or a kept answer have a place too (K4). */
const ROOMY = SETTINGS.replace('open_requests_per_key: 2', 'open_requests_per_key: 400')
/** Its answers may be larger than a row holds. */
const WIDE = `
  - id: svc/wide
    context_length: 131072
    max_output_tokens: 100000
    pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }
    targets: [{ provider: sandbox, model: sandbox }]
plans:`

let gateway: AskedGateway
let customer: TestKey
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: ROOMY.replace('\nplans:', WIDE), clock })
  customer = await gateway.customer()
})
afterAll(() => gateway.close())

let lastKey = 0
const newKey = () => `key-${++lastKey}`

function send(idempotencyKey: string, body: unknown, more: Partial<Question> = {}): Promise<Answer> {
  return gateway.ask({
    path,
    key: customer,
    body,
    ...more,
    headers: { 'Idempotency-Key': idempotencyKey, ...more.headers },
  })
}

async function charges(key = customer): Promise<number> {
  const rows = await gateway.database.query<{ count: bigint }>(
    'select count(*) as count from charges where organization_id = $1',
    [key.organizationId],
  )
  return Number(rows[0]?.count)
}

/** Runs `work` and says how many charges came of it. */
async function chargesOf(work: () => Promise<unknown>): Promise<number> {
  const before = await charges()
  await work()
  return (await charges()) - before
}

describe.each([
  ['JSON', {}],
  ['a stream', { stream: true }],
])('%s', (_name, more) => {
  const body = chat(more)

  test('is given again byte for byte, charged once, with its own request id, the headers of its kind and a cost of 0', async () => {
    const key = newKey()
    const answers: Answer[] = []
    const charged = await chargesOf(async () => {
      for (const id of ['first', 'second', 'third'])
        answers.push(await send(key, body, { headers: { 'X-Request-Id': id } }))
    })
    const [first, second, third] = answers
    expect(charged).toBe(1)
    expect(first?.status).toBe(200)
    expect(first?.headers.get('Idempotency-Replayed')).toBeNull()
    for (const replay of [second, third]) {
      expect(replay?.status).toBe(200)
      expect(replay?.text).toBe(first?.text ?? '')
      expect(replay?.headers.get('Content-Type')).toBe(first?.headers.get('Content-Type') ?? '')
      expect(replay?.headers.get('Idempotency-Replayed')).toBe('true')
      expect(replay?.headers.get(COST)).toBe('0')
      for (const name of ['Cache-Control', 'X-Accel-Buffering']) {
        expect([name, replay?.headers.get(name)]).toEqual([name, first?.headers.get(name)])
      }
    }
    if ('stream' in more) expect(second?.headers.get('Cache-Control')).toBe('no-cache')
    expect(answers.map(({ headers }) => headers.get('X-Request-Id'))).toEqual(['first', 'second', 'third'])
  })

  test('with another body is a mismatch, and the first answer stays', async () => {
    const key = newKey()
    const first = await send(key, body)
    const other = await send(key, chat({ ...more, temperature: 1 }))
    expectRefusal(other, 'B', { status: 422, code: 'idempotency_mismatch', says: /another request/ })
    expect((await send(key, body)).text).toBe(first.text)
  })

  test('is made and charged anew after 24 hours, and not a moment before', async () => {
    const key = newKey()
    const first = await send(key, body)
    const began = clock.now()
    clock.set(began + DAY_MS - 1)
    expect(await chargesOf(async () => expect((await send(key, body)).text).toBe(first.text))).toBe(0)
    clock.set(began + DAY_MS)
    let again: Answer | undefined
    const charged = await chargesOf(async () => {
      again = await send(key, body)
    })
    expect(charged).toBe(1)
    expect(again?.headers.get('Idempotency-Replayed')).toBeNull()
    expect(again?.text).not.toBe(first.text)
  })

  test('a failure is not kept: its key is free at once, and nothing was charged', async () => {
    const key = newKey()
    const charged = await chargesOf(async () => {
      const failed = await send(key, directed('fail=unavailable', more))
      expect(failed.status).toBe(503)
      const good = await send(key, body)
      expect(good.status).toBe(200)
      expect(good.headers.get('Idempotency-Replayed')).toBeNull()
    })
    expect(charged).toBe(1)
  })

  test('200 at once are one call, one charge, and the same bytes or 409', async () => {
    const key = newKey()
    let answers: Answer[] = []
    const charged = await chargesOf(async () => {
      answers = await Promise.all(Array.from({ length: 200 }, () => send(key, body)))
    })
    expect(charged).toBe(1)
    const good = answers.filter(({ status }) => status === 200)
    expect(good.filter(({ headers }) => headers.get('Idempotency-Replayed') === null)).toHaveLength(1)
    expect(new Set(good.map(({ text }) => text)).size).toBe(1)
    for (const answer of answers.filter(({ status }) => status !== 200)) {
      expectRefusal(answer, 'B', { status: 409, code: 'idempotency_conflict', retryAfter: 1 })
    }
    expect((await send(key, body)).text).toBe(good[0]?.text ?? '')
  })
})

describe.each<[string, string, object, object]>([
  ['embeddings', '/embeddings', words(), words({ input: 'Something else.' })],
  ['images', '/images/generations', picture(), picture({ prompt: 'Something else.' })],
])('%s', (_name, at, body, other) => {
  test('200 at once are one call, one charge, and the same bytes or 409; then replays, a mismatch, and a new call after 24 hours', async () => {
    const key = newKey()
    let answers: Answer[] = []
    const charged = await chargesOf(async () => {
      answers = await Promise.all(Array.from({ length: 200 }, () => send(key, body, { path: at })))
      answers.push(await send(key, body, { path: at }))
    })
    expect(charged).toBe(1)
    const good = answers.filter(({ status }) => status === 200)
    expect(new Set(good.map(({ text }) => text)).size).toBe(1)
    for (const answer of answers.filter(({ status }) => status !== 200)) {
      expectRefusal(answer, 'B', { status: 409, code: 'idempotency_conflict', retryAfter: 1 })
    }
    expect(answers.at(-1)?.headers.get('Idempotency-Replayed')).toBe('true')
    expect(answers.at(-1)?.headers.get(COST)).toBe('0')
    const mismatch = await send(key, other, { path: at })
    expectRefusal(mismatch, 'B', { status: 422, code: 'idempotency_mismatch', says: /another request/ })
    clock.set(clock.now() + DAY_MS)
    const again = await chargesOf(async () => {
      expect((await send(key, body, { path: at })).headers.get('Idempotency-Replayed')).toBeNull()
    })
    expect(again).toBe(1)
  })
})

test('the replay of what says no cost says none: a video that was accepted, and its cancelling', async () => {
  const [made, cancelled] = [newKey(), newKey()]
  const first = await send(made, film(), { path: '/videos' })
  expect(first.status).toBe(202)
  const at = `/videos/${(first.json as { id: string }).id}/cancel`
  await send(cancelled, undefined, { path: at, method: 'POST' })
  for (const again of [
    await send(made, film(), { path: '/videos' }),
    await send(cancelled, undefined, { path: at, method: 'POST' }),
  ]) {
    expect(again.headers.get('Idempotency-Replayed')).toBe('true')
    expect(again.headers.has(COST)).toBe(false)
  }
})

describe('a key', () => {
  test.each([
    ['empty', ''],
    ['of 256 characters', 'k'.repeat(256)],
  ])('%s is refused', async (_name, key) => {
    expectRefusal(await send(key, chat()), 'B', { status: 422, code: 'validation_failed', says: /1 to 255 characters/ })
  })

  test('of 255 characters is taken, and its end counts', async () => {
    const long = 'k'.repeat(254)
    const charged = await chargesOf(async () => {
      for (const key of [`${long}a`, `${long}b`, `${long}a`]) expect((await send(key, chat())).status).toBe(200)
    })
    expect(charged).toBe(2)
  })

  test('is one API key’s own, also within an organization', async () => {
    const key = newKey()
    const stranger = await gateway.customer()
    const first = await send(key, chat())
    const other = await send(key, chat(), { key: stranger })
    expect(other.headers.get('Idempotency-Replayed')).toBeNull()
    expect(other.text).not.toBe(first.text)
    expect(await charges(stranger)).toBe(1)
  })

  test('a replay is refused by nothing that comes later: the money may be gone', async () => {
    const poor = await gateway.customer()
    const key = newKey()
    const first = await send(key, chat(), { key: poor })
    await gateway.database.query('update accounts set balance_microcents = 0 where organization_id = $1', [
      poor.organizationId,
    ])
    expect((await send(key, chat(), { key: poor })).text).toBe(first.text)
  })
})

test.each([
  ['a large answer', {}],
  ['a large stream', { stream: true }],
])('%s is a file, encrypted, and given again from it', async (_name, more) => {
  const key = newKey()
  const body = directed('tokens=80000', { model: 'svc/wide', ...more })
  const first = await send(key, body)
  expect(first.text.length).toBeGreaterThan(256 * 1024)
  const folder = join(gateway.dataDirectory, 'artifacts/answers')
  const files = await readdir(folder)
  expect(files.length).toBeGreaterThan(0)
  for (const file of files) {
    const bytes = await readFile(join(folder, file))
    expect(bytes.byteLength).toBeGreaterThan(256 * 1024)
    expect(bytes.includes('svc/wide')).toBe(false)
    expect((await stat(join(folder, file))).mode & 0o777).toBe(0o600)
  }
  expect((await send(key, body)).text).toBe(first.text)
})

test('a client that hangs up on a stream with a key gets all of it when asking again, charged once and whole (C3)', async () => {
  const key = newKey()
  const body = chat({ stream: true })
  const whole = await send(newKey(), body)
  const before = await charges()
  const leaves = new AbortController()
  const response = await gateway.send(path, {
    method: 'POST',
    headers: { Authorization: `Bearer ${customer.key}`, 'Idempotency-Key': key },
    body: JSON.stringify(body),
    signal: leaves.signal,
  })
  const reader = response.body?.getReader()
  await reader?.read()
  await reader?.cancel()
  leaves.abort()
  let again = await send(key, body)
  while (again.status === 409) again = await send(key, body)
  expect(again.headers.get('Idempotency-Replayed')).toBe('true')
  expect(again.events).toHaveLength(whole.events.length)
  expect(again.events.at(-1)).toBe('[DONE]')
  expect((await charges()) - before).toBe(1)
})
