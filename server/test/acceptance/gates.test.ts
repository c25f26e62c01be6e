/** The gates on money as a client meets them in the middle of an answer, and when their figures can't be read. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TestKey } from '../customer.ts'
import { metric } from '../metricsPage.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { directed, film, SETTINGS } from './catalog.ts'
import { expectRefusal } from './refusals.ts'

const path = '/chat/completions'

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS })
})
afterAll(() => gateway.close())

/** A token costs a cent; $40 of them, unless something cuts the answer. */
const long = (stream: boolean) =>
  directed('prompt_tokens=20 tokens=4000', { model: 'svc/dear', stream, max_tokens: 4000 })

async function limited(enforcement: string): Promise<TestKey> {
  const key = await gateway.customer({ admin: true, cents: 100_000 })
  const body = { monthly_limit_dollars: 100, daily_limit_dollars: 10, enforcement }
  expect((await gateway.ask({ method: 'PUT', path: '/billing/spending-limit', key, body })).status).toBe(200)
  return key
}

async function charged(key: TestKey) {
  const [charge, ...more] = await gateway.database.query<{ outcome: string; cents: bigint }>(
    `select outcome, cost_microcents / 1000000 as cents from charges where organization_id = $1::uuid`,
    [key.organizationId],
  )
  expect(more).toEqual([])
  return { outcome: charge?.outcome, cents: Number(charge?.cents) }
}

const eventsOf = (text: string) => text.split('\n').filter((line) => line.startsWith('data: '))

describe('a spending limit that is reached in the middle of an answer', () => {
  test('cuts a stream under stop_running: an error event, and what was sent is charged', async () => {
    const key = await limited('stop_running')
    const answer = await gateway.ask({ path, key, body: long(true) })
    expect(answer.status).toBe(200)
    const events = eventsOf(answer.text)
    expect(events.at(-1)).toBe('data: [DONE]')
    expect(JSON.parse(events.at(-2)?.slice('data: '.length) ?? '')).toEqual({
      error: {
        message: expect.stringContaining('daily spending limit was reached'),
        type: 'billing_error',
        code: 'quota_exceeded',
        param: null,
      },
    })
    const { outcome, cents } = await charged(key)
    expect(outcome).toBe('cut')
    expect(cents).toBeGreaterThan(700)
    expect(cents).toBeLessThanOrEqual(1_000)
    const next = await gateway.ask({ path, key, body: long(true) })
    expect([next.status, next.json]).toMatchObject([402, { error: { code: 'quota_exceeded' } }])
  })

  test('ends a whole answer under stop_running with the length that was paid for', async () => {
    const key = await limited('stop_running')
    const answer = await gateway.ask({ path, key, body: long(false) })
    expect([answer.status, answer.json]).toMatchObject([200, { choices: [{ finish_reason: 'length' }] }])
    const { outcome, cents } = await charged(key)
    expect(outcome).toBe('cut')
    expect(cents).toBeLessThanOrEqual(1_000)
  })

  test.each(['block_launch', 'notify_only'])('lets a stream under %s go on to its end', async (enforcement) => {
    const key = await limited(enforcement)
    const answer = await gateway.ask({ path, key, body: long(true) })
    expect(answer.text).not.toContain('"error"')
    expect(await charged(key)).toEqual({ outcome: 'completed', cents: 4_020 })
  })
})

describe('when the figures of the gates can not be read', () => {
  const unreadable = () => metric(gateway.app, 'gates_unreadable_total')
  const short = (stream: boolean) => directed('prompt_tokens=20 tokens=5', { model: 'svc/dear', stream, max_tokens: 5 })

  async function withoutAccounts<T>(work: () => Promise<T>): Promise<T> {
    await gateway.database.query('alter table accounts rename to accounts_away')
    try {
      return await work()
    } finally {
      await gateway.database.query('alter table accounts_away rename to accounts')
    }
  }

  test.each([true, false])('a call is refused with 503, charged nothing, and counted (stream: %p)', async (stream) => {
    const key = await gateway.customer()
    const before = await unreadable()
    const refused = await withoutAccounts(() => gateway.ask({ path, key, body: short(stream) }))
    expect([refused.status, refused.json]).toMatchObject([503, { error: { code: 'upstream_unavailable' } }])
    expect(refused.headers.get('Retry-After')).toBe('1')
    expect((await unreadable()) - before).toBe(1)
    expect(
      await gateway.database.query('select 1 from charges where organization_id = $1', [key.organizationId]),
    ).toEqual([])
    expect((await gateway.ask({ path, key, body: short(stream) })).status).toBe(200)
    expect(await charged(key)).toEqual({ outcome: 'completed', cents: 25 })
  })

  test('a video is refused with 503, not made, and counted; its Idempotency-Key is free', async () => {
    const key = await gateway.customer()
    const before = await unreadable()
    const create = () =>
      gateway.ask({ path: '/videos', key, body: film(), headers: { 'Idempotency-Key': 'unreadable' } })
    const refused = { status: 503, code: 'upstream_unavailable', retryAfter: 1, says: /Nothing was done or charged/ }
    expectRefusal(await withoutAccounts(create), 'B', refused)
    expect((await unreadable()) - before).toBe(1)
    expect((await gateway.ask({ path: '/videos', key })).json).toMatchObject({ data: [] })
    const made = await create()
    expect([made.status, made.headers.get('Idempotency-Replayed')]).toEqual([202, null])
  })
})
