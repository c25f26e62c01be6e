/** Webhook endpoints and the routes of the management interface, as customers meet them (W1, W2, W4, D3). */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../test/acceptance/ask.ts'
import type { Answer } from '../../test/acceptance/description.ts'
import { expectRefusal } from '../../test/acceptance/refusals.ts'
import type { TestKey } from '../../test/gateway.ts'
import { startReceiver } from '../../test/webhookReceiver.ts'
import { revokeKey } from '../identity/keys/revoke.ts'
import { systemClock } from '../infra/clock.ts'
import { systemRandom } from '../infra/random.ts'
import { uuidV7 } from '../lib/ids.ts'
import { publishEvent } from './publish.ts'

const HOOKS = '/webhook-endpoints'
const UUID = '01900000-0000-7000-8000-000000000000'
const GOOD = { url: 'https://example.com/hook', event_types: ['video.completed'] }

let gateway: AskedGateway
let closed: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: 'webhooks: { allow: [127.0.0.0/8] }' })
  closed = await openAskedGateway()
})
afterAll(async () => {
  await gateway.close()
  await closed.close()
})

function create(key: TestKey, more: object = {}, idempotencyKey: string = crypto.randomUUID()): Promise<Answer> {
  const headers = { 'Idempotency-Key': idempotencyKey }
  return gateway.ask({ path: HOOKS, key, body: { ...GOOD, ...more }, headers })
}

interface Made {
  readonly id: string
  readonly secret: string
}

async function made(key: TestKey, more: object = {}): Promise<Made> {
  const answer = await create(key, more)
  expect(answer.status).toBe(201)
  return answer.json as Made
}

const publish = (key: TestKey, type: 'video.completed' | 'video.failed' = 'video.completed') => {
  const id = uuidV7(Date.now(), systemRandom())
  const event = { id, organizationId: key.organizationId, type, createdAtMs: Date.now(), data: { video: { id: 'v' } } }
  return gateway.database.transaction((tx) => publishEvent(tx, event, 10_000)).then(() => id)
}

interface ShownDelivery {
  readonly id: string
  readonly state: string
  readonly event_id: string
  readonly endpoint_id: string
  readonly event_type: string
  readonly attempts: readonly { readonly status: number | null; readonly answer?: string | null }[]
}

async function deliveries(key: TestKey, query = ''): Promise<ShownDelivery[]> {
  const answer = await gateway.ask({ path: `/manage/v1/deliveries${query}`, key })
  expect(answer.status).toBe(200)
  return (answer.json as { data: ShownDelivery[] }).data
}

/** The answers to the attempts of a delivery, which only it itself shows. */
async function answersOf(key: TestKey, id = ''): Promise<(string | null | undefined)[]> {
  const answer = await gateway.ask({ path: `/manage/v1/deliveries/${id}`, key })
  expect(answer.status).toBe(200)
  return (answer.json as ShownDelivery).attempts.map((each) => each.answer)
}

/** Asks until there is one of this state. */
async function deliveryOnce(key: TestKey, state: string, query = ''): Promise<ShownDelivery> {
  for (;;) {
    const found = (await deliveries(key, query)).find((each) => each.state === state)
    if (found !== undefined) return found
  }
}

test('an endpoint is shown with its secret once, and without it ever after', async () => {
  const key = await gateway.customer()
  const answer = await create(key, { event_types: ['video.failed', 'instance.running'] })
  expect(answer.json).toEqual({
    id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    url: GOOD.url,
    event_types: ['video.failed', 'instance.running'],
    enabled: true,
    created_at: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/),
    secret: expect.stringMatching(/^[0-9a-f]{64}$/),
  })
  const { secret, ...rest } = answer.json as Made
  const listed = await gateway.ask({ path: HOOKS, key })
  expect(listed.json).toEqual({ data: [rest], next_cursor: null })
  const [row] = await gateway.database.query<{ found: boolean }>(
    `select exists (select 1 from webhook_endpoints e where e::text like '%' || $1 || '%'
       or position(convert_to($1, 'UTF8') in secret) > 0) as found`,
    [secret],
  )
  expect(row?.found).toBe(false)
  expect(gateway.logs.join('')).not.toContain(secret)
})

test('its creation needs an Idempotency-Key, and shows the same secret to who asks again with it', async () => {
  const key = await gateway.customer()
  const without = await gateway.ask({ path: HOOKS, key, body: GOOD })
  expectRefusal(without, 'A', { status: 422, code: 'validation_failed', says: /Idempotency-Key/ })
  const first = await create(key, {}, 'again')
  const second = await create(key, {}, 'again')
  expect([second.status, second.text]).toEqual([201, first.text])
  expect(second.headers.get('Content-Type')).toBe(first.headers.get('Content-Type'))
  expect(second.headers.get('Idempotency-Replayed')).toBe('true')
  const other = await create(key, { event_types: ['video.failed'] }, 'again')
  expectRefusal(other, 'A', { status: 422, code: 'idempotency_mismatch' })
  expect(
    (await gateway.database.query('select 1 from webhook_endpoints where organization_id = $1', [key.organizationId]))
      .length,
  ).toBe(1)
})

test.each<[string, object, RegExp]>([
  ['no url', { url: undefined }, /'url' is required/],
  ['a url that is a number', { url: 7 }, /'url'/],
  ['plain http', { url: 'http://example.com/' }, /https/],
  ['a password', { url: 'https://user:hunter2@example.com/' }, /user name/],
  ['a literal private address', { url: 'https://10.0.0.1/' }, /public internet/],
  ['the metadata service, disguised', { url: 'https://0xa9fea9fe/' }, /public internet/],
  ['a url without //', { url: 'https:example.com' }, /right after https:/],
  ['a url with three slashes', { url: 'https:///x' }, /right after https:/],
  ['port 0', { url: 'https://example.com:0/' }, /port 0/],
  ['a long url', { url: `https://example.com/${'a'.repeat(2_048)}` }, /2048/],
  ['a host that DNS can not have', { url: `https://${'a'.repeat(64)}.example/` }, /253 characters, and 1 to 63/],
  ['no event types', { event_types: undefined }, /'event_types' is required/],
  ['an empty list', { event_types: [] }, /at least one/],
  ['a type twice', { event_types: ['video.failed', 'video.failed'] }, /once/],
  ['an unknown type', { event_types: ['video.started'] }, /must be one of/],
  ['all of them at once', { event_types: ['*'] }, /must be one of/],
  ['a word for a list', { event_types: 'video.failed' }, /'event_types'/],
  ['an unknown field', { description: 'mine' }, /no field 'description'/],
])('%s is refused', async (_name, more, says) => {
  const key = await gateway.customer()
  const answer = await create(key, more)
  expectRefusal(answer, 'A', { status: 422, code: 'validation_failed', says })
  expect(answer.text).not.toContain('hunter2')
})

test('localhost and plain http are for networks that the operator opened', async () => {
  const key = await closed.customer()
  for (const url of ['https://localhost/', 'http://localhost/', 'http://127.0.0.1/']) {
    const headers = { 'Idempotency-Key': crypto.randomUUID() }
    const answer = await closed.ask({ path: HOOKS, key, headers, body: { ...GOOD, url } })
    expectRefusal(answer, 'A', { status: 422, code: 'validation_failed' })
    expect((await create(await gateway.customer(), { url })).status).toBe(201)
  }
})

test('a URL is kept in its normal form, and shown so', async () => {
  const key = await gateway.customer()
  const made = await create(key, { url: 'HTTPS://Example.COM:443/a/../Hook?x="' })
  expect(made.json).toMatchObject({ url: 'https://example.com/Hook?x=%22' })
  const listed = await gateway.ask({ path: HOOKS, key })
  expect(listed.json).toMatchObject({ data: [{ url: 'https://example.com/Hook?x=%22' }] })
})

test('a name of a private address and one that is unknown look the same in the log of deliveries', async () => {
  const receiver = await startReceiver()
  const key = await gateway.customer()
  await made(key, { url: receiver.url })
  await publish(key)
  await deliveryOnce(key, 'delivered')
  receiver.stop()
  const asIf = async (failure: string, latencyMs: number) => {
    await gateway.database.query(
      `update webhook_attempts set status = null, answer = null, failure = $2, latency_ms = $3
         where delivery_id in (select id from webhook_deliveries where organization_id = $1::uuid)`,
      [key.organizationId, failure, latencyMs],
    )
    return await deliveries(key)
  }
  const unknown = await asIf('unresolved', 31)
  expect(unknown).toMatchObject([{ attempts: [{ failure: 'unresolved', latency_ms: 0, status: null }] }])
  expect(await asIf('refused_address', 2)).toEqual(unknown)
})

test('no name is looked up: one that leads nowhere is taken', async () => {
  const url = 'https://tollgate.invalid:8443/hook?a=%20b'
  expect(await made(await gateway.customer(), { url })).toMatchObject({ url })
})

test('the 51st is refused, and pages hold them all in their order', async () => {
  const key = await gateway.customer()
  const ids: string[] = []
  for (let index = 0; index < 50; index += 1) {
    ids.push((await made(key, { url: `https://example.com/${index}` })).id)
  }
  const refused = await create(key)
  expectRefusal(refused, 'A', { status: 422, code: 'validation_failed', says: /50/ })
  const seen: string[] = []
  let cursor: string | null = ''
  for (let pages = 0; cursor !== null && pages < 10; pages += 1) {
    const query: string = cursor === '' ? '' : `&cursor=${cursor}`
    const { json } = await gateway.ask({ path: `${HOOKS}?limit=17${query}`, key })
    const page = json as { data: { id: string }[]; next_cursor: string | null }
    seen.push(...page.data.map(({ id }) => id))
    cursor = page.next_cursor
  }
  // Of two that were made within one millisecond, either may come first.
  expect(seen).toEqual(ids.toSorted())
})

test.each(['limit=0', 'limit=201', 'limit=x', 'cursor=x', 'cursor=', 'limit=1&limit=2', 'after=1'])(
  'a list does not take ?%s',
  async (query) => {
    const key = await gateway.customer()
    for (const path of [HOOKS, '/manage/v1/deliveries']) {
      const answer = await gateway.ask({ path: `${path}?${query}`, key })
      expectRefusal(answer, 'A', { status: 422, code: 'validation_failed' })
    }
  },
)

test('a cursor is of one list, and as it was made', async () => {
  const key = await gateway.customer()
  for (let index = 0; index < 2; index += 1) await made(key)
  const { json } = await gateway.ask({ path: `${HOOKS}?limit=1`, key })
  const { next_cursor: cursor } = json as { next_cursor: string }
  const [kind, ...rest] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as unknown[]
  const inAnotherForm = Buffer.from(JSON.stringify([kind, ...rest], null, 1)).toString('base64url')
  expect((await gateway.ask({ path: `${HOOKS}?cursor=${cursor}`, key })).status).toBe(200)
  for (const path of [
    `/manage/v1/deliveries?cursor=${cursor}`,
    `${HOOKS}?cursor=${cursor}!`,
    `${HOOKS}?cursor=${inAnotherForm}`,
  ]) {
    expectRefusal(await gateway.ask({ path, key }), 'A', { status: 422, code: 'validation_failed', says: /cursor/ })
  }
})

test('the deletion of an endpoint deletes its secret everywhere, and its deliveries on their way', async () => {
  const receiver = await startReceiver((response) => response.writeHead(500).end())
  const key = await gateway.customer()
  const first = await create(key, { url: receiver.url }, 'mine')
  const { id } = first.json as Made
  await publish(key)
  await receiver.until(1)
  const gone = await gateway.ask({ method: 'DELETE', path: `${HOOKS}/${id}`, key })
  expect([gone.status, gone.text]).toEqual([204, ''])
  const again = await gateway.ask({ method: 'DELETE', path: `${HOOKS}/${id}`, key })
  expectRefusal(again, 'A', { status: 404, code: 'not_found' })
  expect(await deliveries(key)).toEqual([])
  // The kept answer is gone too: the key begins anew.
  const second = await create(key, { url: receiver.url }, 'mine')
  expect(second.headers.get('Idempotency-Replayed')).toBe(null)
  expect((second.json as Made).secret).not.toBe((first.json as Made).secret)
  receiver.stop()
})

test("another organization's endpoints and deliveries are as those that there are not", async () => {
  const receiver = await startReceiver()
  const [key, other] = [await gateway.customer(), await gateway.customer()]
  const { id } = await made(key, { url: receiver.url })
  await publish(key)
  const delivered = await deliveryOnce(key, 'delivered')
  expect(await deliveries(other)).toEqual([])
  for (const [method, path] of [
    ['GET', `/manage/v1/deliveries/${delivered.id}`],
    ['POST', `/manage/v1/deliveries/${delivered.id}/redeliver`],
    ['POST', `/manage/v1/webhook-endpoints/${id}/test`],
  ] as const) {
    for (const wrong of [path, path.replace(/[0-9a-f-]{36}/, UUID), path.replace(/[0-9a-f-]{36}/, 'x')]) {
      const answer = await gateway.ask({ method, path: wrong, key: other })
      expectRefusal(answer, 'A', { status: 404, code: 'not_found' })
    }
  }
  const answer = await gateway.ask({ method: 'DELETE', path: `${HOOKS}/${id}`, key: other })
  expectRefusal(answer, 'A', { status: 404, code: 'not_found' })
  receiver.stop()
})

test('of one state a page looks at 10,000 deliveries, and has a cursor though it is empty', async () => {
  const key = await gateway.customer()
  await gateway.database.query(
    `with event as (insert into webhook_events values ($1::uuid, $2::uuid, 'video.failed', '{}', now(), '1') returning id)
     insert into webhook_deliveries (id, organization_id, endpoint_id, event_id, state, attempts, attempts_before_round, is_new, created_at)
     select gen_random_uuid(), $2::uuid, gen_random_uuid(), id, case n when 10001 then 'dead' else 'delivered' end, 1, 0, false,
       date_trunc('second', now()) - n * interval '1 second' from event, generate_series(1, 10001) n`,
    [crypto.randomUUID(), key.organizationId],
  )
  const pageOf = async (query: string) => (await gateway.ask({ path: `/manage/v1/deliveries${query}`, key })).json
  const first = (await pageOf('?state=dead')) as { data: unknown[]; next_cursor: string }
  expect(first).toEqual({ data: [], next_cursor: expect.any(String) })
  expect(await pageOf(`?state=dead&cursor=${first.next_cursor}`)).toMatchObject({
    data: [{ state: 'dead' }],
    next_cursor: null,
  })
})

test('a delivery is listed with its attempts, and sent again when asked', async () => {
  let status = 500
  const receiver = await startReceiver((response) => response.writeHead(status).end(`said ${status}`))
  const key = await gateway.customer()
  const { id } = await made(key, { url: receiver.url })
  const eventId = await publish(key)
  await receiver.until(1)
  let [shown] = await deliveries(key)
  while (shown?.attempts.length === 0) [shown] = await deliveries(key)
  expect(shown).toMatchObject({
    event_id: eventId,
    endpoint_id: id,
    event_type: 'video.completed',
    state: 'pending',
    attempts: [{ number: 1, status: 500, failure: null }],
  })
  expect(await answersOf(key, shown?.id)).toEqual(['said 500'])
  status = 204
  const again = await gateway.ask({ method: 'POST', path: `/manage/v1/deliveries/${shown?.id}/redeliver`, key })
  expect(again.status).toBe(202)
  const after = await deliveryOnce(key, 'delivered')
  expect(after.attempts.map((each) => each.status)).toEqual([500, 204])
  await gateway.ask({ method: 'POST', path: `/manage/v1/deliveries/${shown?.id}/redeliver`, key })
  await receiver.until(3)
  expect(new Set(receiver.received.map(({ body }) => body)).size).toBe(1)
  expect((await deliveries(key, `?event_id=${eventId}&endpoint_id=${id}`)).length).toBe(1)
  expect(await deliveries(key, '?state=dead')).toEqual([])
  expect(await deliveries(key, `?event_id=${UUID}`)).toEqual([])
  receiver.stop()
})

test('a sample is delivered like any event, of a type that the endpoint subscribed to', async () => {
  const receiver = await startReceiver()
  const key = await gateway.customer()
  const { id } = await made(key, { url: receiver.url, event_types: ['instance.failed', 'video.failed'] })
  const path = `/manage/v1/webhook-endpoints/${id}/test`
  const answer = await gateway.ask({ method: 'POST', path, key, headers: { 'Idempotency-Key': 'sample' } })
  expect([answer.status, (answer.json as ShownDelivery).event_type]).toEqual([202, 'instance.failed'])
  const replay = await gateway.ask({ method: 'POST', path, key, headers: { 'Idempotency-Key': 'sample' } })
  expect(replay.text).toBe(answer.text)
  const [received] = await receiver.until(1)
  expect(JSON.parse(received?.body ?? '')).toMatchObject({
    type: 'instance.failed',
    data: { instance: { id: 'instance_test', object: 'instance', state: 'failed', reason: 'create_refused' } },
  })
  for (const type of ['video.completed', 'instance.running', 'nonsense']) {
    const refused = await gateway.ask({ method: 'POST', path: `${path}?type=${type}`, key })
    expectRefusal(refused, 'A', { status: 422, code: 'validation_failed', says: /type/ })
  }
  await deliveryOnce(key, 'delivered')
  await gateway.ask({ method: 'POST', path: `${path}?type=video.failed`, key })
  const [, second] = await receiver.until(2)
  expect(JSON.parse(second?.body ?? '')).toMatchObject({
    type: 'video.failed',
    data: { video: { id: 'video_test', object: 'video', status: 'failed', error: 'internal_error' } },
  })
  expect(receiver.received).toHaveLength(2)
  receiver.stop()
})

test('events are streamed as they happen: id, type, and what webhooks are sent; the stream ends when the server stops', async () => {
  const own = await openAskedGateway({ settings: 'webhooks: { allow: [127.0.0.0/8] }' })
  const key = await own.customer()
  const headers = { Authorization: `Bearer ${key.key}` }
  const response = await own.send('/manage/v1/events', { headers })
  expect([response.status, response.headers.get('Content-Type')]).toEqual([200, 'text/event-stream'])
  // As every stream of events says (E18).
  const says = ({ headers }: Pick<Response, 'headers'>) =>
    ['Cache-Control', 'X-Accel-Buffering', 'X-Content-Type-Options'].map((name) => headers.get(name))
  expect(says(response)).toEqual(['no-cache', 'no', 'nosniff'])
  const reader = response.body?.getReader()
  // Before any event, so that the head of the answer leaves.
  expect(new TextDecoder().decode((await reader?.read())?.value)).toBe(': listening\n\n')
  const id = uuidV7(Date.now(), systemRandom())
  const event = { id, organizationId: key.organizationId, type: 'video.failed', createdAtMs: 0, data: {} } as const
  await own.database.transaction((tx) => publishEvent(tx, event, 10_000))
  const { value } = (await reader?.read()) ?? {}
  const data = `{"id":"${id}","type":"video.failed","created_at":"1970-01-01T00:00:00.000Z","data":{}}`
  expect(new TextDecoder().decode(value)).toBe(`id: ${id}\nevent: video.failed\ndata: ${data}\n\n`)
  const head = await own.ask({ path: '/manage/v1/events', method: 'HEAD', key })
  expect([head.status, head.text, ...says(head)]).toEqual([200, '', ...says(response)])
  const refused = await own.ask({ path: '/manage/v1/events', key, headers: { 'Last-Event-ID': 'x' } })
  expectRefusal(refused, 'A', { status: 422, code: 'validation_failed', says: /Last-Event-ID/ })
  await own.close()
  expect((await reader?.read())?.done).toBe(true)
})

test('a stream of events ends when its key is revoked, with nothing of what happens then', async () => {
  const key = await gateway.customer()
  const response = await gateway.send('/manage/v1/events', { headers: { Authorization: `Bearer ${key.key}` } })
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  const first = await publish(key)
  let seen = ''
  while (!seen.includes(`id: ${first}\n`)) seen += (await reader?.read())?.value ?? ''
  await revokeKey({ database: gateway.database, clock: systemClock }, key.id)
  while ((await gateway.ask({ path: HOOKS, key })).status === 200);
  await publish(key)
  expect(await reader?.read()).toMatchObject({ done: true })
})
