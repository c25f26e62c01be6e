/** The rows of the interface's section 8 that are spans of time: retention of videos, webhooks. With the clock turned. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import Stripe from 'stripe'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/lib/time.ts'
import type { TestKey } from '../customer.ts'
import { LongClock } from '../longClock.ts'
import { type ScriptedVideos, scriptVideos, testVideo } from '../scriptedVideos.ts'
import { type AnswerWith, startReceiver } from '../webhookReceiver.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { cancelledInProgress } from './cancellations.ts'
import { chat, film, SETTINGS } from './catalog.ts'
import { expectRefusal } from './refusals.ts'
import { HOOK, HOOKS } from './webhookRows.ts'

const clock = new LongClock(Date.UTC(2031, 4, 4, 12))
let gateway: AskedGateway
let provider: ScriptedVideos
beforeAll(async () => {
  provider = scriptVideos()
  const settings = `webhooks: { allow: [127.0.0.0/8] }\n${SETTINGS}`
  gateway = await openAskedGateway({ settings, clock, videos: provider })
})
afterAll(() => gateway.close())

/** Asks until it is as it should be; what brings that about polls, each half a second at the latest. */
async function until<T>(ask: () => Promise<T>, isSo: (found: T) => boolean): Promise<T> {
  const deadlineMs = Date.now() + 30_000
  while (Date.now() < deadlineMs) {
    const found = await ask()
    if (isSo(found)) return found
    await new Promise((resolve) => setImmediate(resolve))
  }
  throw new Error(`it never was: ${JSON.stringify(await ask())}`)
}

describe('videos', () => {
  type Job = Record<string, unknown>
  const jobOf = async (key: TestKey, id: unknown) => (await gateway.ask({ path: `/videos/${id}`, key })).json as Job
  const contentOf = (key: TestKey, id: unknown) => gateway.ask({ path: `/videos/${id}/content`, key })
  const balanceOf = async (key: TestKey) => (await gateway.ask({ path: '/billing/balance', key })).json
  const files = () => readdir(join(gateway.dataDirectory, 'artifacts/videos')).catch(() => [])
  const gone = { status: 410, code: 'expired', says: /24 hours/ }

  test('a finished one is there for 24 hours, and not a moment longer; what it cost stays', async () => {
    const key = await gateway.customer({ cents: 100 })
    const { id } = (await gateway.ask({ path: '/videos', key, body: film() })).json as Job
    const done = await until(
      () => jobOf(key, id),
      ({ status }) => status === 'completed',
    )
    expect(Number(done['expires_at'])).toBe(clock.now() / SECOND_MS + 24 * 3_600)
    clock.turn(DAY_MS - 1)
    const last = await contentOf(key, id)
    expect([last.status, last.text]).toEqual([200, new TextDecoder().decode(testVideo(4))])
    clock.turn(1)
    expectRefusal(await contentOf(key, id), 'B', gone)
    expect(await jobOf(key, id)).toEqual({ ...done, status: 'expired' })
    expect(done['cost_cents']).toBe(4)
    // The file itself stays a little longer, for those who were just fetching it.
    await until(
      () => gateway.database.query("select from videos where id = $1::uuid and status = 'expired'", [String(id)]),
      ({ length }) => length === 1,
    )
    clock.turn(30 * MINUTE_MS)
    await until(files, (names) => names.length === 0)
    expect(await jobOf(key, id)).toEqual({ ...done, status: 'expired' })
    expectRefusal(await contentOf(key, id), 'B', gone)
    expect(await balanceOf(key)).toMatchObject({ balance_cents: 96 })
  })

  test('one that nobody ever began ends after 2 hours, unbilled, and its money is free again', async () => {
    const key = await gateway.customer({ cents: 4 })
    provider.taking = () => 'busy'
    const made = (await gateway.ask({ path: '/videos', key, body: film() })).json as Job
    const short = { status: 402, code: 'insufficient_balance' }
    expectRefusal(await gateway.ask({ path: '/videos', key, body: film() }), 'B', short)
    clock.turn(2 * HOUR_MS - 1)
    expect(await jobOf(key, made['id'])).toEqual(made)
    clock.turn(1)
    const over = await until(
      () => jobOf(key, made['id']),
      ({ status }) => status !== 'queued',
    )
    expect(over).toEqual({ ...made, status: 'expired' })
    expectRefusal(await contentOf(key, made['id']), 'B', gone)
    expect(await balanceOf(key)).toMatchObject({ balance_cents: 4 })
    provider.taking = () => 'taken'
    expect((await gateway.ask({ path: '/videos', key, body: film() })).status).toBe(202)
  })

  test('60 may be cancelled in progress within an hour: then no more are begun until one of those is older; cancelling stays free', async () => {
    const key = await gateway.customer({ cents: 1_000 })
    const create = (headers = {}) => gateway.ask({ path: '/videos', key, body: film(), headers })
    const cancel = (id: unknown) => gateway.ask({ method: 'POST', path: `/videos/${id}/cancel`, key })
    const begun = async () => {
      const { id } = (await create()).json as Job
      await until(
        () => jobOf(key, id),
        ({ status }) => status === 'in_progress',
      )
      return id
    }
    provider.looking = () => ({ kind: 'working', progress: 1 })
    const replayed = { 'Idempotency-Key': 'before' }
    const first = (await create(replayed)).json as Job
    await cancelledInProgress(gateway.database, key, 58, clock.now())
    clock.turn(10 * MINUTE_MS)
    const [one, another] = [await begun(), await begun()]
    expect((await cancel(one)).json).toMatchObject({ status: 'cancelled', cost_cents: null })
    expect((await create()).status).toBe(202)
    expect((await cancel(another)).json).toMatchObject({ status: 'cancelled', cost_cents: null })
    const refused = { status: 429, code: 'rate_limit_exceeded', retryAfter: 50 * 60 + 1, says: /60 videos in progress/ }
    expectRefusal(await create(), 'B', refused)
    // Nothing else is refused: a replay, cancelling, calls of other kinds; and it is not told as a matter of money.
    expect((await create(replayed)).headers.get('Idempotency-Replayed')).toBe('true')
    expect((await gateway.ask({ path: '/chat/completions', key, body: chat() })).status).toBe(200)
    const preflight = await gateway.ask({ path: '/inference/preflight?model=svc/film', key })
    expect(preflight.json).toMatchObject({ verdict: 'ok', funded: true })
    expect((await cancel(first['id'])).json).toMatchObject({ status: 'cancelled' })
    const listed = (await gateway.ask({ path: '/videos?limit=200', key })).json as { data: Job[] }
    for (const { id, status } of listed.data) if (status === 'in_progress') expect((await cancel(id)).status).toBe(200)
    clock.turn(50 * MINUTE_MS)
    expectRefusal(await create(), 'B', { ...refused, retryAfter: 1 })
    clock.turn(1)
    expect((await create()).status).toBe(202)
    provider.looking = (job) => job.state
  })
})

describe('a webhook', () => {
  interface Delivery {
    readonly state: string
    readonly next_attempt_at: string | null
    readonly attempts: readonly { readonly failure: string | null; readonly latency_ms: number }[]
  }

  /** An endpoint there, a sample that is on its way to it, and what is known of that. */
  async function sampleTo(url: string) {
    const key = await gateway.customer()
    const headers = { 'Idempotency-Key': url }
    const made = await gateway.ask({ path: HOOKS, key, headers, body: { ...HOOK, url } })
    const { id, secret } = made.json as { id: string; secret: string }
    const sent = await gateway.ask({ method: 'POST', path: `/manage/v1${HOOKS}/${id}/test`, key })
    expect(sent.status).toBe(202)
    const look = async () => {
      const { json } = await gateway.ask({ path: '/manage/v1/deliveries', key })
      return (json as { data: [Delivery] }).data[0]
    }
    return { secret, look }
  }

  test('has 10 seconds for its answer', async () => {
    let late = () => {}
    const answer: AnswerWith = (response, _received, index) => {
      late = () => response.writeHead(204).end()
      if (index > 0) late()
    }
    for (const [waitMs, state, failure] of [
      [9_900, 'delivered', null],
      [10_100, 'pending', 'timeout'],
    ] as const) {
      const receiver = await startReceiver(answer)
      const { look } = await sampleTo(receiver.url)
      await receiver.until(1)
      clock.turn(waitMs)
      late()
      const shown = await until(look, ({ attempts }) => attempts.length === 1)
      expect([shown.state, shown.attempts[0]?.failure]).toEqual([state, failure])
      receiver.stop()
    }
  })

  test('is sent 5 times, over 2.6 hours; then it is dead', async () => {
    const receiver = await startReceiver((response) => response.writeHead(500).end())
    const { look } = await sampleTo(receiver.url)
    const gaps = [30 * SECOND_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS]
    for (const [index, gapMs] of gaps.entries()) {
      const failed = await until(look, ({ attempts }) => attempts.length === index + 1)
      expect(failed.state).toBe('pending')
      const waitMs = Date.parse(failed.next_attempt_at ?? '') - clock.now()
      expect(waitMs).toBeWithin(gapMs, gapMs * 1.1 + 1)
      expect(receiver.received).toHaveLength(index + 1)
      clock.turn(waitMs)
    }
    const dead = await until(look, ({ attempts }) => attempts.length === 5)
    expect([dead.state, dead.next_attempt_at]).toEqual(['dead', null])
    expect(receiver.received).toHaveLength(5)
    receiver.stop()
  })

  test("its signature's time is the attempt's, which receivers hold against 5 minutes", async () => {
    const receiver = await startReceiver()
    const { secret } = await sampleTo(receiver.url)
    const [received] = await receiver.until(1)
    if (received === undefined) throw new Error('nothing came')
    const signature = received.headers['svc-signature'] ?? ''
    const seconds = Math.floor(clock.now() / SECOND_MS)
    expect(signature).toStartWith(`t=${seconds},v1=`)
    const { webhooks } = new Stripe('sk_test_none')
    const verify = (atSeconds: number) =>
      webhooks.constructEventAsync(received.body, signature, secret, 300, undefined, atSeconds * SECOND_MS)
    expect(await verify(seconds + 300)).toMatchObject({ id: received.headers['svc-event-id'] ?? '' })
    expect(verify(seconds + 301)).rejects.toThrow(/tolerance/)
    receiver.stop()
  })
})
