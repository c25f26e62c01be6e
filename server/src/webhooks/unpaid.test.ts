/** Webhooks are bounded where customers pay for nothing of them: endpoints, tests, redeliveries, pages (W1, W6, W7). */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../test/acceptance/ask.ts'
import type { Answer } from '../../test/acceptance/description.ts'
import { subscribe } from '../../test/acceptance/plans.ts'
import { expectRefusal } from '../../test/acceptance/refusals.ts'
import { makeKey, type TestKey } from '../../test/customer.ts'
import { startReceiver } from '../../test/webhookReceiver.ts'
import { systemRandom } from '../infra/random.ts'
import { uuidV7 } from '../lib/ids.ts'
import { publishEvent } from './publish.ts'

const HOOKS = '/webhook-endpoints'
const UUID = '01900000-0000-7000-8000-000000000000'
const MIB = 1_048_576
const GOOD = { url: 'https://example.com/hook', event_types: ['video.completed'] }
const PLAN =
  'plans: [{ key: small, name: Small, input_tokens_monthly: 100, output_tokens_monthly: 100, weekly_tokens: 100 }]'

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: `webhooks: { allow: [127.0.0.0/8], pending_deliveries: 35 }\n${PLAN}` })
})
afterAll(() => gateway.close())

function create(key: TestKey, more: object = {}): Promise<Answer> {
  const headers = { 'Idempotency-Key': crypto.randomUUID() }
  return gateway.ask({ path: HOOKS, key, body: { ...GOOD, ...more }, headers })
}

async function made(key: TestKey, more: object = {}): Promise<{ readonly id: string }> {
  const answer = await create(key, more)
  expect(answer.status).toBe(201)
  return answer.json as { id: string }
}

const post = (key: TestKey, path: string) => gateway.ask({ method: 'POST', path: `/manage/v1${path}`, key })

const publish = (key: TestKey, pendingMost = 35) => {
  const id = uuidV7(Date.now(), systemRandom())
  const { organizationId } = key
  const event = { id, organizationId, type: 'video.completed', createdAtMs: Date.now(), data: {} } as const
  return gateway.database.transaction((tx) => publishEvent(tx, event, pendingMost))
}

interface ShownDelivery {
  readonly id: string
  readonly state: string
  readonly reason: string | null
  readonly attempts: readonly { readonly answer?: string | null }[]
}

async function deliveries(key: TestKey): Promise<ShownDelivery[]> {
  const { json } = await gateway.ask({ path: '/manage/v1/deliveries', key })
  return (json as { data: ShownDelivery[] }).data
}

/** The answers to the attempts of a delivery, which only it itself shows. */
async function answersOf(key: TestKey, id = ''): Promise<(string | null | undefined)[]> {
  const { json } = await gateway.ask({ path: `/manage/v1/deliveries/${id}`, key })
  return (json as ShownDelivery).attempts.map(({ answer }) => answer)
}

/** Expects a refusal with some seconds to wait, a minute at most. */
function expectWait(answer: Answer, says: RegExp): void {
  const retryAfter = Number(answer.headers.get('Retry-After'))
  expect(retryAfter).toBeWithin(1, 61)
  expectRefusal(answer, 'A', { status: 429, code: 'rate_limited', retryAfter, says })
}

test('a third endpoint with the same URL is refused, however it is written', async () => {
  const key = await gateway.customer()
  const url = 'https://example.com/hook?a=1'
  const first = await made(key, { url })
  await made(key, { url: 'https://EXAMPLE.com:443/hook?a=1#part' })
  const third = await create(key, { url })
  expectRefusal(third, 'A', {
    status: 422,
    code: 'validation_failed',
    says: /2 webhook endpoints with this 'url'.*delete/,
  })
  await made(key, { url: 'https://example.com/hook?a=2' })
  await made(await gateway.customer(), { url })
  await gateway.ask({ method: 'DELETE', path: `${HOOKS}/${first.id}`, key })
  await made(key, { url })
})

test('two of many at once get the last places of a URL', async () => {
  const key = await gateway.customer()
  const answers = await Promise.all(Array.from({ length: 6 }, () => create(key)))
  expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 201, 422, 422, 422, 422])
})

test('tests and redeliveries are for those who pay for something, and are 402 to others', async () => {
  const receiver = await startReceiver()
  const [poor, subscriber] = [await gateway.customer({ cents: 0 }), await gateway.customer({ cents: 0 })]
  const ids = [(await made(poor, { url: receiver.url })).id, (await made(subscriber, { url: receiver.url })).id]
  const refused = await post(poor, `${HOOKS}/${ids[0]}/test`)
  expectRefusal(refused, 'A', { status: 402, code: 'insufficient_balance', says: /credit/ })
  // A resource that there is not comes first (E1).
  expectRefusal(await post(poor, `${HOOKS}/${UUID}/test`), 'A', { status: 404, code: 'not_found' })
  await publish(poor)
  const [delivery] = await deliveries(poor)
  const again = await post(poor, `/deliveries/${delivery?.id}/redeliver`)
  expectRefusal(again, 'A', { status: 402, code: 'insufficient_balance' })
  await subscribe(gateway.database, subscriber, 'small')
  expect((await post(subscriber, `${HOOKS}/${ids[1]}/test`)).status).toBe(202)
  receiver.stop()
})

test('an organization has 30 tests and redeliveries a minute, whatever the endpoint and the key', async () => {
  const key = await gateway.customer()
  const keys = [key, await makeKey(gateway.database, key.organizationId)]
  const ids = [(await made(key)).id, (await made(key)).id]
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, index) => post(keys[index % 2] ?? key, `${HOOKS}/${ids[index % 2]}/test`)),
  )
  const of = (status: number) => answers.filter((each) => each.status === status)
  expect([of(202).length, of(429).length]).toEqual([30, 10])
  for (const refused of of(429)) expectWait(refused, /30 webhook tests and redeliveries/)
  const [delivery] = await deliveries(key)
  expectWait(await post(key, `/deliveries/${delivery?.id}/redeliver`), /30 webhook tests and redeliveries/)
})

test('deliveries beyond the pending ones that an organization may have are dead at once, with the reason', async () => {
  const key = await gateway.customer()
  await made(key, { url: 'https://127.0.0.1:1/' })
  for (let time = 0; time < 36; time += 1) await publish(key)
  // Those of one millisecond are listed in no order.
  const shown = await deliveries(key)
  const [excess] = shown.filter(({ state }) => state === 'dead')
  expect(excess).toMatchObject({ reason: 'too_many_pending', next_attempt_at: null, attempts: [] })
  expect(shown.filter(({ state, reason }) => state === 'pending' && reason === null)).toHaveLength(35)
  expectWait(await post(key, `/deliveries/${excess?.id}/redeliver`), /35 pending deliveries/)
})

test('a page of deliveries is small, however much their receivers answered; the answers come by id', async () => {
  const key = await gateway.customer()
  const { id: endpointId } = await made(key)
  // JSON writes each byte with six.
  await gateway.database.query(
    `with events as (
       insert into webhook_events (id, organization_id, type, body, created_at, written_by)
       select gen_random_uuid(), $1::uuid, 'video.failed', '{}', now(), pg_current_xact_id() from generate_series(1, 201)
       returning id
     ), sent as (
       insert into webhook_deliveries (id, organization_id, endpoint_id, event_id, state, attempts, attempts_before_round,
         is_new, created_at)
       select gen_random_uuid(), $1::uuid, $2::uuid, id, 'dead', 10, 5, false, now() from events returning id
     )
     insert into webhook_attempts (delivery_id, number, started_at, latency_ms, status, answer)
     select id, number, now(), 1, 500, convert_to(repeat(chr(1), 4096), 'UTF8') from sent, generate_series(1, 10) number`,
    [key.organizationId, endpointId],
  )
  const page = await gateway.ask({ path: '/manage/v1/deliveries?limit=200', key })
  const { data } = page.json as { data: ShownDelivery[] }
  expect(data).toHaveLength(200)
  expect(data[0]?.attempts).toHaveLength(10)
  expect([page.text.length < MIB, page.text.includes('answer')]).toEqual([true, false])
  expect(await answersOf(key, data[0]?.id)).toEqual(Array.from({ length: 10 }, () => '\u0001'.repeat(4_096)))
})
