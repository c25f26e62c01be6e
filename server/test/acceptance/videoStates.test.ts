/** A video job in each of its states, as its customer sees it: fields, file, cancellation, money, and who is told (V3 to V7). */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { SECOND_MS } from '../../src/lib/time.ts'
import { makeKey, type TestKey } from '../customer.ts'
import { LongClock } from '../longClock.ts'
import { type ScriptedVideos, scriptVideos, testVideo } from '../scriptedVideos.ts'
import { type Receiver, startReceiver } from '../webhookReceiver.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { film, SETTINGS } from './catalog.ts'
import { expectRefusal } from './refusals.ts'
import { HOOK, HOOKS } from './webhookRows.ts'

/** A dollar a second, one at a time. */
const DEAR = `
  - id: svc/dear-film
    modality: video
    pricing: { per_video_second_cents: 100 }
    video: { concurrency: 1 }
    parameters: [{ name: seconds, type: int, max: 10, default: 4 }]
    targets: [{ provider: sandbox, model: sandbox }]
plans:`

const NOW_MS = Date.UTC(2031, 4, 4, 12)
const clock = new LongClock(NOW_MS)
let gateway: AskedGateway
let provider: ScriptedVideos
let receiver: Receiver
beforeAll(async () => {
  provider = scriptVideos()
  const settings = `webhooks: { allow: [127.0.0.0/8] }\n${SETTINGS.replace('\nplans:', DEAR)}`
  gateway = await openAskedGateway({ settings, clock, videos: provider })
  receiver = await startReceiver()
})
afterAll(async () => {
  receiver.stop()
  await gateway.close()
})

type Job = Record<string, unknown>
const jobOf = async (key: TestKey, id: unknown) => (await gateway.ask({ path: `/videos/${id}`, key })).json as Job
const contentOf = (key: TestKey, id: unknown) => gateway.ask({ path: `/videos/${id}/content`, key })
const cancel = (key: TestKey, id: unknown) => gateway.ask({ method: 'POST', path: `/videos/${id}/cancel`, key })
const balanceOf = async (key: TestKey) =>
  ((await gateway.ask({ path: '/billing/balance', key })).json as Job)['balance_cents']

async function create(key: TestKey, more: Readonly<Record<string, unknown>> = {}): Promise<Job> {
  const answer = await gateway.ask({ path: '/videos', key, body: film(more) })
  expect(answer.status).toBe(202)
  return answer.json as Job
}

/** Asks until it has this status, and this progress; what is to be looked at again later is, at once. */
async function until(key: TestKey, id: unknown, status: string, progress?: number): Promise<Job> {
  const deadlineMs = Date.now() + 30_000
  while (Date.now() < deadlineMs) {
    const job = await jobOf(key, id)
    if (job['status'] === status && (progress ?? job['progress']) === job['progress']) return job
    clock.turn(SECOND_MS)
    await new Promise((resolve) => setImmediate(resolve))
  }
  throw new Error(`never ${status}`)
}

interface Brought {
  readonly key: TestKey
  readonly made: Job
  readonly job: Job
}

/** A job of a new customer with 100 cents, brought into a state. */
const STATES: Readonly<Record<string, (key: TestKey) => Promise<Brought>>> = {
  async queued(key) {
    provider.taking = () => 'busy'
    const made = await create(key)
    return { key, made, job: await jobOf(key, made['id']) }
  },
  async in_progress(key) {
    provider.looking = () => ({ kind: 'working', progress: 37.9 })
    const made = await create(key)
    return { key, made, job: await until(key, made['id'], 'in_progress', 37) }
  },
  async completed(key) {
    provider.sending = () => testVideo(2.6)
    const made = await create(key)
    return { key, made, job: await until(key, made['id'], 'completed') }
  },
  async failed(key) {
    provider.looking = () => ({ kind: 'failed', code: 'content_policy', detail: 'the provider says why' })
    const made = await create(key)
    return { key, made, job: await until(key, made['id'], 'failed') }
  },
  async cancelled(key) {
    provider.looking = () => ({ kind: 'working', progress: 37.9 })
    const made = await create(key)
    await until(key, made['id'], 'in_progress', 37)
    expect((await cancel(key, made['id'])).status).toBe(200)
    return { key, made, job: await jobOf(key, made['id']) }
  },
}

async function bring(state: string): Promise<Brought> {
  const brought = await STATES[state]?.(await gateway.customer({ cents: 100 }))
  if (brought === undefined) throw new Error(`there is no state ${state}`)
  return brought
}

const unscripted = scriptVideos()
function resume(): void {
  provider.taking = unscripted.taking
  provider.looking = unscripted.looking
  provider.sending = unscripted.sending
}

describe('fields', () => {
  test.each([
    ['queued', {}],
    ['in_progress', { progress: 37 }],
    [
      'completed',
      { progress: 100, seconds: 3, cost_cents: 3, completed_at: expect.any(Number), expires_at: expect.any(Number) },
    ],
    ['failed', { error: 'content_policy' }],
    ['cancelled', { progress: 37 }],
  ])('of a job that is %s: those, nulls among them, and no other', async (status, own) => {
    const createdAtMs = clock.now()
    const { made, job, key } = await bring(status)
    const queued = {
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      object: 'video',
      model: 'svc/film',
      status: 'queued',
      progress: 0,
      created_at: Math.floor(createdAtMs / SECOND_MS),
      seconds: 4,
      completed_at: null,
      expires_at: null,
      cost_cents: null,
      error: null,
    }
    expect(made).toEqual(queued)
    expect(job).toEqual({ ...queued, status, ...own })
    const { json } = await gateway.ask({ path: '/videos', key })
    expect(json).toEqual({
      object: 'list',
      data: [{ ...queued, status, ...own }],
      first_id: job['id'],
      last_id: job['id'],
      has_more: false,
    })
    if (status === 'completed') expect(Number(job['expires_at']) - Number(job['completed_at'])).toBe(86_400)
    resume()
  })

  test('null is as if it were not there (E7); a form has everything as text', async () => {
    const key = await gateway.customer()
    expect(await create(key, { seconds: null, size: null })).toMatchObject({ seconds: 4 })
    expect(await create(key, { model: 'svc/sized-film', size: null })).toMatchObject({ seconds: 4, size: '64x64' })
    const form = new FormData()
    for (const [name, value] of Object.entries(film({ seconds: '007' }))) form.append(name, String(value))
    const headers = { Authorization: `Bearer ${key.key}` }
    const answer = await gateway.send('/videos', { method: 'POST', headers, body: form })
    expect([answer.status, await answer.json()]).toMatchObject([202, { seconds: 7 }])
  })
})

test('where it stands is told while it waits, how long it may take until it is over, once that is known of the model', async () => {
  const key = await gateway.customer()
  const headersOf = async (id: unknown) => {
    const { headers } = await gateway.ask({ path: `/videos/${id}`, key })
    return [headers.get('Svc-Queue-Position'), headers.get('Svc-Estimated-Seconds')]
  }
  const model = { model: 'svc/dear-film', seconds: 1 }
  for (let count = 0; count < 3; count += 1) {
    const { id } = (await create(key, model)) as { id: string }
    await until(key, id, 'completed')
    expect(await headersOf(id)).toEqual([null, null])
  }
  // One is being made, so that the others wait.
  provider.looking = () => ({ kind: 'working', progress: 1 })
  const ids = [(await create(key, model))['id']]
  await until(key, ids[0], 'in_progress')
  for (let count = 0; count < 2; count += 1) {
    clock.turn(1)
    ids.push((await create(key, model))['id'])
  }
  const range = expect.stringMatching(/^\d+-\d+$/)
  for (const [index, place] of [null, '1', '2'].entries()) expect(await headersOf(ids[index])).toEqual([place, range])
  for (const id of ids) await cancel(key, id)
  expect(await headersOf(ids[1])).toEqual([null, null])
  resume()
})

test('one that a provider is being asked to take still waits, before those behind it', async () => {
  const key = await gateway.customer()
  const { submit } = provider
  let answer = () => {}
  const asked = new Promise<void>((resolve) => {
    provider.submit = (...call) => {
      resolve()
      return new Promise((taken) => {
        answer = () => taken(submit(...call))
      })
    }
  })
  const places: unknown[] = []
  const made = [await create(key, { model: 'svc/dear-film', seconds: 1 })]
  await asked
  clock.turn(1)
  made.push(await create(key, { model: 'svc/dear-film', seconds: 1 }))
  for (const { id } of made) {
    const { json, headers } = await gateway.ask({ path: `/videos/${id}`, key })
    places.push([(json as Job)['status'], headers.get('Svc-Queue-Position')])
  }
  expect(places).toEqual([
    ['queued', '1'],
    ['queued', '2'],
  ])
  provider.submit = submit
  answer()
  for (const { id } of made) await until(key, id, 'completed')
})

describe('its file', () => {
  test.each(['queued', 'in_progress', 'failed', 'cancelled'])(
    'is not there of a job that is %s (V3)',
    async (status) => {
      const { key, job } = await bring(status)
      const none = { status: 404, code: 'not_found', says: new RegExp(`'${status}'`) }
      expectRefusal(await contentOf(key, job['id']), 'B', none)
      resume()
    },
  )

  test('is there of one that is completed, to all keys of its organization that may read, and to no other', async () => {
    const { key, job } = await bring('completed')
    const reader = await makeKey(gateway.database, key.organizationId, { scopes: 'serverless:read' }, clock)
    for (const each of [key, reader]) {
      const answer = await contentOf(each, job['id'])
      expect([answer.status, answer.headers.get('Content-Type')]).toEqual([200, 'video/mp4'])
      expect(answer.headers.get('Content-Length')).toBe(`${testVideo(2.6).byteLength}`)
    }
    expect((await gateway.ask({ path: '/videos', key: reader })).json).toMatchObject({ data: [{ id: job['id'] }] })
    expectRefusal(await cancel(reader, job['id']), 'B', { status: 403, code: 'insufficient_scope' })
    const none = { status: 404, code: 'not_found' }
    expectRefusal(await contentOf(await gateway.customer(), job['id']), 'B', none)
    resume()
  })

  test('in parts, and by HEAD, each answer as described', async () => {
    const { key, job } = await bring('completed')
    const path = `/videos/${job['id']}/content`
    const part = (range: string, method = 'GET') => gateway.ask({ path, key, method, headers: { Range: range } })
    expect((await part('bytes=0-2')).text).toBe('mp4')
    expect((await part('bytes=0-2', 'HEAD')).status).toBe(200)
    expectRefusal(await part('bytes=999-'), 'B', { status: 416, code: 'range_not_satisfiable' })
    const { headers } = await gateway.ask({ path, key, method: 'HEAD' })
    const known = { 'If-None-Match': headers.get('ETag') ?? '' }
    expect((await gateway.ask({ path, key, headers: known })).status).toBe(304)
    resume()
  })
})

describe('cancelling', () => {
  test.each(['completed', 'failed', 'cancelled'])('one that is %s leaves it as it is, with 200', async (status) => {
    const { key, job } = await bring(status)
    const answer = await cancel(key, job['id'])
    expect([answer.status, answer.json]).toEqual([200, job])
    expect(await jobOf(key, job['id'])).toEqual(job)
    resume()
  })

  test.each(['queued', 'in_progress'])('one that is %s ends it, and its money is free again', async (status) => {
    const { key, job } = await bring(status)
    const answer = await cancel(key, job['id'])
    expect([answer.status, answer.json]).toMatchObject([200, { id: job['id'], status: 'cancelled', cost_cents: null }])
    expect(await balanceOf(key)).toBe(100)
    resume()
    // All of it may be spent again.
    for (const seconds of new Array(10).fill(10)) await create(key, { seconds })
  })
})

describe('money', () => {
  test.each([
    ['completed', 97],
    ['failed', 100],
    ['cancelled', 100],
  ])(
    'a job that is %s leaves %i of 100 cents; it counts in the limits of its organization (P6)',
    async (status, cents) => {
      const { key } = await bring(status)
      expect(await balanceOf(key)).toBe(cents)
      const admin = await makeKey(gateway.database, key.organizationId, { admin: true }, clock)
      const limit = { monthly_limit_dollars: 1 }
      const put = await gateway.ask({ method: 'PUT', path: '/billing/spending-limit', key: admin, body: limit })
      const spent = 100 - cents
      expect(put.json).toMatchObject({ current_day_spend_cents: spent, current_month_spend_cents: spent })
      const { data } = (await gateway.ask({ path: '/usage', key })).json as { data: Job[] }
      expect(data.map((bucket) => bucket['cost_cents'])).toEqual(spent === 0 ? [] : [spent])
      resume()
    },
  )

  test('neither the caps of an organization nor that of new accounts are asked, only the balance', async () => {
    const fresh = await gateway.customer({ standing: 'new', cents: 100_000 })
    // $30, which is more than the $20 of an hour.
    for (let count = 0; count < 3; count += 1) await create(fresh, { model: 'svc/dear-film', seconds: 10 })
    const capped = await gateway.customer({ admin: true })
    const limit = { monthly_limit_dollars: 1, daily_limit_dollars: 0.01, enforcement: 'stop_running' }
    await gateway.ask({ method: 'PUT', path: '/billing/spending-limit', key: capped, body: limit })
    for (let count = 0; count < 2; count += 1) {
      const made = await create(capped, { seconds: 10 })
      await until(capped, made['id'], 'completed')
    }
    const { json } = await gateway.ask({ path: '/billing/spending-limit', key: capped })
    expect(json).toMatchObject({ current_day_spend_cents: 20 })
  })
})

describe('who is told', () => {
  /** A customer whom the receiver is told for. */
  async function subscriber(types: readonly string[] = HOOK.event_types): Promise<TestKey> {
    const key = await gateway.customer({ cents: 100 })
    const headers = { 'Idempotency-Key': 'mine' }
    const body = { url: receiver.url, event_types: types }
    expect((await gateway.ask({ path: HOOKS, key, headers, body })).status).toBe(201)
    return key
  }

  test.each([
    ['completed', {}],
    ['failed', { error: 'content_policy' }],
  ])('of a job that is %s: its event, once, when everything is done (W5)', async (status, own) => {
    const before = receiver.received.length
    const key = await subscriber()
    const job: Job = (await STATES[status]?.(key))?.job ?? {}
    const told = (await receiver.until(before + 1))[before]
    const event = JSON.parse(told?.body ?? '')
    expect(event).toEqual({
      id: told?.headers['svc-event-id'],
      type: `video.${status}`,
      created_at: expect.stringMatching(/^2031-05-.*\.\d{3}Z$/),
      data: { video: { id: job['id'], object: 'video', model: 'svc/film', status, ...own } },
    })
    expect(told?.body).not.toMatch(/upstream|provider/)
    // The event tells the truth: the file can be fetched, and is paid.
    expect((await contentOf(key, job['id'])).status).toBe(status === 'completed' ? 200 : 404)
    expect(await balanceOf(key)).toBe(status === 'completed' ? 97 : 100)
    const { data } = (await gateway.ask({ path: '/manage/v1/deliveries', key })).json as { data: Job[] }
    expect(data.map((delivery) => [delivery['event_id'], delivery['event_type']])).toEqual([[event.id, event.type]])
    resume()
  })

  test('of one that is cancelled or expires: nobody; nor of a type that was not asked for', async () => {
    const key = await subscriber()
    const cancelled = await STATES['cancelled']?.(key)
    resume()
    provider.taking = () => 'busy'
    const queued = await create(key)
    clock.turn(2 * 3_600 * SECOND_MS)
    await until(key, queued['id'], 'expired')
    resume()
    const other = await subscriber(['video.failed', 'instance.running'])
    const made = await create(other)
    await until(other, made['id'], 'completed')
    for (const each of [key, other]) {
      expect((await gateway.ask({ path: '/manage/v1/deliveries', key: each })).json).toMatchObject({ data: [] })
    }
    expect(cancelled?.job['status']).toBe('cancelled')
  })
})
