/**
 * Rules 1 to 5 of idempotency (section 8 of the interface) at jobs, webhook endpoints and the management interface, both
 * envelopes: the same key while the first request runs, again after it, with another request, after a refusal, after a day.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { systemClock } from '../../src/infra/clock.ts'
import { openClient } from '../../src/infra/postgres/client.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { DAY_MS } from '../../src/lib/time.ts'
import type { TestKey } from '../customer.ts'
import { scriptVideos } from '../scriptedVideos.ts'
import { SetClock } from '../setClock.ts'
import { type Receiver, startReceiver } from '../webhookReceiver.ts'
import { type AskedGateway, openAskedGateway, type Question } from './ask.ts'
import { film, SETTINGS } from './catalog.ts'
import type { Answer } from './description.ts'
import { expectRefusal } from './refusals.ts'
import { HOOK, HOOKS } from './webhookRows.ts'

const clock = new SetClock(Date.UTC(2031, 4, 4, 12))
let gateway: AskedGateway
let receiver: Receiver
/** Connections of the test's own. */
let holder: Database
let customer: TestKey

beforeAll(async () => {
  const provider = scriptVideos()
  // The jobs of this test are worked on by nobody.
  provider.taking = () => 'busy'
  const settings = `webhooks: { allow: [127.0.0.0/8] }\n${SETTINGS}`
  gateway = await openAskedGateway({ settings, clock, videos: provider })
  holder = openClient(gateway.databaseUrl, { maxConnections: 2, clock: systemClock, applicationName: 'holder' })
  receiver = await startReceiver()
})
afterAll(async () => {
  receiver.stop()
  await holder.close()
  await gateway.close()
})

type Asked = Omit<Question, 'key'>

interface Doing {
  readonly name: string
  readonly envelope: 'A' | 'B'
  readonly status: number
  /** The row that it waits for while another request has it, by its table and its column of the organization. */
  readonly waitsFor: string
  /** The request, and another one that is as good. */
  make(): Promise<readonly [Asked, Asked]>
  /** Which is refused by what stands behind idempotency; none where nothing is. */
  readonly refused?: (asked: Asked) => Asked
}

async function made(question: Asked, key = crypto.randomUUID()): Promise<{ readonly id: string }> {
  const answer = await gateway.ask({ ...question, key: customer, headers: { 'Idempotency-Key': key } })
  expect(answer.status).toBeLessThan(300)
  return answer.json as { id: string }
}

let urls = 0
/** Each endpoint has its own: an organization has two of one URL at most. */
const newUrl = () => {
  urls += 1
  return `${receiver.url}/${urls}`
}

const endpoint = () => made({ path: HOOKS, body: { ...HOOK, url: newUrl() } })
const post = (path: string): Asked => ({ method: 'POST', path })

async function sample(endpointId: string): Promise<string> {
  return (await made(post(`/manage/v1${HOOKS}/${endpointId}/test`))).id
}

const DOINGS: readonly Doing[] = [
  {
    name: 'POST /videos',
    envelope: 'B',
    status: 202,
    waitsFor: 'accounts where organization_id',
    make: async () => [
      { path: '/videos', body: film() },
      { path: '/videos', body: film({ seconds: 5 }) },
    ],
    refused: ({ path }) => ({ path, body: film({ model: 'svc/none' }) }),
  },
  {
    name: 'POST /videos/{id}/cancel',
    envelope: 'B',
    status: 200,
    waitsFor: 'videos where organization_id',
    make: async () => {
      const ids = [await made({ path: '/videos', body: film() }), await made({ path: '/videos', body: film() })]
      const [one, other] = ids.map(({ id }) => post(`/videos/${id}/cancel`))
      return [one ?? post(''), other ?? post('')]
    },
    refused: () => post('/videos/none/cancel'),
  },
  {
    name: 'POST /webhook-endpoints',
    envelope: 'A',
    status: 201,
    waitsFor: 'organizations where id',
    make: async () => [
      { path: HOOKS, body: { ...HOOK, url: newUrl() } },
      { path: HOOKS, body: { ...HOOK, url: newUrl(), event_types: ['video.failed'] } },
    ],
  },
  {
    name: 'DELETE /webhook-endpoints/{id}',
    envelope: 'A',
    status: 204,
    waitsFor: 'webhook_endpoints where organization_id',
    make: async () => {
      const [one, other] = [await endpoint(), await endpoint()]
      const remove = (id: string): Asked => ({ method: 'DELETE', path: `${HOOKS}/${id}` })
      return [remove(one.id), remove(other.id)]
    },
    refused: () => ({ method: 'DELETE', path: `${HOOKS}/none` }),
  },
  {
    name: 'POST /manage/v1/deliveries/{id}/redeliver',
    envelope: 'A',
    status: 202,
    waitsFor: 'webhook_turns t using (endpoint_id)',
    make: async () => {
      const { id } = await endpoint()
      const redeliver = (delivery: string) => post(`/manage/v1/deliveries/${delivery}/redeliver`)
      return [redeliver(await sample(id)), redeliver(await sample(id))]
    },
    refused: () => post('/manage/v1/deliveries/none/redeliver'),
  },
  {
    name: 'POST /manage/v1/webhook-endpoints/{id}/test',
    envelope: 'A',
    status: 202,
    waitsFor: 'webhook_endpoints where organization_id',
    make: async () => {
      const path = `/manage/v1${HOOKS}/${(await endpoint()).id}/test`
      return [post(path), post(`${path}?type=video.failed`)]
    },
    refused: () => post(`/manage/v1${HOOKS}/none/test`),
  },
]

/**
 * Does `work` while the rows are another's, and nobody else waits for them: those who wait keep a connection of the gateway's
 * few each.
 */
async function whileHeld(waitsFor: string, work: () => Promise<void>): Promise<void> {
  const rows = waitsFor.endsWith('using (endpoint_id)')
    ? `select 1 from webhook_turns t join webhook_endpoints e on e.id = t.endpoint_id
       where e.organization_id = $1::uuid for update of t`
    : `select 1 from ${waitsFor} = $1::uuid for update`
  const tryOnce = () =>
    holder.transaction(async (tx) => {
      await tx.query(rows, [customer.organizationId])
      if ((await tx.query("select 1 from videos where status = 'submitting'")).length > 0) return false
      await work()
      return true
    })
  while (!(await tryOnce()));
}

async function underWay(): Promise<boolean> {
  const rows = await holder.query('select 1 from idempotent_attempts where key_id = $1::uuid and status is null', [
    customer.id,
  ])
  return rows.length > 0
}

describe.each(DOINGS)('$name', ({ envelope, status, waitsFor, make, refused }) => {
  const send = (question: Asked, key: string) =>
    gateway.ask({ ...question, key: customer, headers: { 'Idempotency-Key': key } })
  const replayed = ({ headers }: Answer) => headers.get('Idempotency-Replayed')
  let asked: Asked
  let other: Asked
  beforeAll(async () => {
    customer = await gateway.customer()
    ;[asked, other] = await make()
  })

  test('is done once: 409 while it runs, then the same bytes, and 422 for another request', async () => {
    let first: Promise<Answer> | undefined
    await whileHeld(waitsFor, async () => {
      first = send(asked, 'one')
      while (!(await underWay())) await Promise.resolve()
      const conflict = { status: 409, code: 'idempotency_conflict', retryAfter: 1, says: /still running/ }
      expectRefusal(await send(asked, 'one'), envelope, conflict)
    })
    const answer = await first
    if (answer === undefined) throw new Error('nothing was sent')
    expect([answer.status, replayed(answer)]).toEqual([status, null])
    const again = await send(asked, 'one')
    expect([again.status, replayed(again), again.text]).toEqual([status, 'true', answer.text])
    expect(again.headers.get('Content-Type')).toBe(answer.headers.get('Content-Type'))
    expect(again.headers.get('X-Request-Id')).not.toBe(answer.headers.get('X-Request-Id'))
    const mismatch = { status: 422, code: 'idempotency_mismatch', says: /new key/ }
    expectRefusal(await send(other, 'one'), envelope, mismatch)
    // A body without fields, or one that the route ignores, belongs to the request all the same (D4).
    const body = envelope === 'B' ? { another: true } : {}
    if (asked.body === undefined) expectRefusal(await send({ ...asked, body }, 'one'), envelope, mismatch)
  })

  test('a refusal is not kept: its key is free at once', async () => {
    if (refused === undefined) return
    expectRefusal(await send(refused(asked), 'two'), envelope, {
      status: 404,
      code: refused(asked).path === '/videos' ? 'model_not_found' : 'not_found',
      ...(refused(asked).path === '/videos' && { param: 'model' }),
    })
    const answer = await send(other, 'two')
    expect([answer.status, replayed(answer)]).toEqual([status, null])
  })

  test('a key of 255 characters is taken, none and 256 are not', async () => {
    for (const key of ['', 'k'.repeat(256)]) {
      const invalid = { status: 422, code: 'validation_failed', says: /1 to 255 characters/ }
      expectRefusal(await send(other, key), envelope, invalid)
    }
    const [fresh] = await make()
    expect((await send(fresh, 'k'.repeat(255))).status).toBe(status)
  })

  test('is one API key’s own', async () => {
    const stranger = await gateway.customer()
    const answer = await gateway.ask({ ...asked, key: stranger, headers: { 'Idempotency-Key': 'one' } })
    expect(replayed(answer)).toBe(null)
  })

  test('is done anew after 24 hours, and not a moment before', async () => {
    const [fresh] = await make()
    const first = await send(fresh, 'three')
    const began = clock.now()
    clock.set(began + DAY_MS - 1)
    const again = await send(fresh, 'three')
    expect([replayed(again), again.text]).toEqual(['true', first.text])
    clock.set(began + DAY_MS)
    expect(replayed(await send(fresh, 'three'))).toBe(null)
  })
})

test('rule 1: what makes a webhook endpoint must have a key, and what deletes one need not', async () => {
  customer = await gateway.customer()
  const refusedWithout = await gateway.ask({ path: HOOKS, key: customer, body: HOOK })
  expectRefusal(refusedWithout, 'A', { status: 422, code: 'validation_failed', says: /header Idempotency-Key/ })
  const { id } = await endpoint()
  expect((await gateway.ask({ method: 'DELETE', path: `${HOOKS}/${id}`, key: customer })).status).toBe(204)
})

test('a job that money refused is made with the same key once there is money', async () => {
  const poor = await gateway.customer({ cents: 3 })
  const ask = () => gateway.ask({ path: '/videos', key: poor, body: film(), headers: { 'Idempotency-Key': 'mine' } })
  expectRefusal(await ask(), 'B', { status: 402, code: 'insufficient_balance', says: /fewer seconds/i })
  await gateway.database.query(
    'update accounts set balance_microcents = balance_microcents + 1000000 where organization_id = $1::uuid',
    [poor.organizationId],
  )
  const made = await ask()
  expect([made.status, made.headers.get('Idempotency-Replayed')]).toEqual([202, null])
  expect((await ask()).text).toBe(made.text)
  expect((await gateway.ask({ path: '/videos', key: poor })).json).toMatchObject({ data: [{ seconds: 4 }] })
})
