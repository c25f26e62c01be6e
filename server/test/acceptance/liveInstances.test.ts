/** Instances that run, through the whole gateway: their terminals, their minutes among the limits, the burn, and their events. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { systemClock } from '../../src/infra/clock.ts'
import { MINUTE_MS } from '../../src/lib/time.ts'
import { askApp, basic, openAppSocket } from '../appClient.ts'
import type { CustomerOptions, TestKey } from '../customer.ts'
import { Stripe } from '../packages.ts'
import { until } from '../until.ts'
import { type Receiver, startReceiver } from '../webhookReceiver.ts'
import { openRental, operationOf, RENTED, type Rental } from './rental.ts'

/** Goes on as the wall's, on another day, and is put forward: what watches over connections must not see time jump. */
let aheadMs = Date.UTC(2031, 4, 17, 12) - systemClock.now()
const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }

const BALANCE = '/billing/balance'
const LIMIT = '/billing/spending-limit'

/** The app of every instance, and its terminal: two servers, each of which says which one it is. */
const answering = (name: string) =>
  Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request, server) {
      if (server.upgrade(request)) return
      const headers = Object.fromEntries(request.headers)
      return Response.json({ name, path: new URL(request.url).pathname, headers, body: await request.text() })
    },
    websocket: { message: (socket, text) => void socket.send(`${name}: ${text}`) },
  })

let servers: ReturnType<typeof answering>[]
let rental: Rental
let receiver: Receiver
beforeAll(async () => {
  const [app, terminal] = [answering('app'), answering('terminal')]
  servers = [app, terminal]
  receiver = await startReceiver()
  rental = await openRental({
    clock,
    instances: ['host: apps.localhost', 'port: 0'],
    more: 'webhooks: { allow: [127.0.0.0/8] }\n',
    urls: { app: `http://127.0.0.1:${app.port}/app`, terminal: `http://127.0.0.1:${terminal.port}/shell` },
  })
})
afterAll(async () => {
  await rental.close()
  receiver.stop()
  for (const server of servers) await server.stop(true)
})

interface Rented {
  readonly key: TestKey
  readonly id: string
  /** The result of its operation. */
  readonly result: unknown
}

async function rent(options: CustomerOptions = {}): Promise<Rented> {
  const key = await rental.gateway.customer({ cents: 10_000, ...options })
  const { operation_id: operationId, resource_id: id } = operationOf(await rental.create(key))
  const { json } = await rental.ended(key, operationId)
  expect(json).toMatchObject({ state: 'succeeded' })
  return { key, id, result: (json as { result: unknown }).result }
}

async function end({ key, id }: Pick<Rented, 'key' | 'id'>): Promise<void> {
  const deleting = await rental.gateway.ask({ method: 'DELETE', path: `/instances/${id}`, key })
  await rental.ended(key, operationOf(deleting).operation_id)
}

const get = async (key: TestKey, path: string) =>
  (await rental.gateway.ask({ path, key })).json as Record<string, unknown>

test('a terminal answers at its URL as the app does at its own: HTTP and WebSockets, with the password of the instance', async () => {
  const rented = await rent()
  const host = `${rented.id}-terminal.apps.localhost`
  expect(rented.result).toMatchObject({ terminal_url: `http://${host}/`, app_basic_auth_user: 'tollgate' })
  const makePassword = async ({ id, key }: Rented) => {
    const headers = { 'Idempotency-Key': crypto.randomUUID() }
    const made = await rental.gateway.ask({ method: 'POST', path: `/instances/${id}/app-password`, key, headers })
    expect(made.json).toMatchObject({ terminal_url: `http://${id}-terminal.apps.localhost/` })
    return basic((made.json as { password: string }).password)
  }
  const authorization = await makePassword(rented)
  const others = await makePassword(await rent())
  const ask = (headers: Record<string, string>, path = '/', body?: string) =>
    askApp(rental.appPort, rented, path, { host, ...headers }, body)
  const answer = await ask({ authorization }, '/ls', 'hello')
  expect(answer.status).toBe(200)
  const seen = JSON.parse(answer.text)
  expect(seen).toMatchObject({ name: 'terminal', path: '/shell/ls', body: 'hello' })
  expect(seen.headers).not.toHaveProperty('authorization')
  const app = await askApp(rental.appPort, rented, '/ls', { authorization })
  expect(JSON.parse(app.text)).toMatchObject({ name: 'app', path: '/app/ls' })
  const { echo, socket } = await openAppSocket(rental.appPort, rented, { host, Authorization: authorization })
  expect(await echo('whoami')).toBe('terminal: whoami')
  socket.close()
  for (const headers of [{}, { authorization: basic('wrong') }, { authorization: others }]) {
    expect(await ask(headers)).toMatchObject({ status: 401, text: 'Show the password of the instance.\n' })
    const { authorization: Authorization = '' } = headers
    await expect(openAppSocket(rental.appPort, rented, { host, Authorization })).rejects.toBeDefined()
  }
  const foreign = { host, Authorization: authorization, Origin: `http://${rented.id}.apps.localhost` }
  await expect(openAppSocket(rental.appPort, rented, foreign)).rejects.toBeDefined()
  await end(rented)
  expect(await ask({ authorization })).toMatchObject({ status: 401 })
})

test('the burn is null while it can not be read, and never 0', async () => {
  const rented = await rent()
  const { database } = rental.gateway
  expect(await get(rented.key, BALANCE)).toMatchObject({ burn_cents_per_hour: 240 })
  await database.query('alter table instances rename to gone')
  const unread = await get(rented.key, BALANCE).finally(() => database.query('alter table gone rename to instances'))
  expect(unread).toMatchObject({ balance_cents: expect.any(Number), burn_cents_per_hour: null })
  expect(await get(rented.key, BALANCE)).toMatchObject({ burn_cents_per_hour: 240 })
  await end(rented)
  expect(await get(rented.key, BALANCE)).toMatchObject({ burn_cents_per_hour: 0 })
})

test('the spending limit counts the minutes of an instance once they are charged, and not what is held for the next ones', async () => {
  const rented = await rent({ admin: true })
  const { key, id } = rented
  const body = { monthly_limit_dollars: 2 }
  expect((await rental.gateway.ask({ method: 'PUT', path: LIMIT, key, body })).status).toBe(200)
  expect(await get(key, LIMIT)).toMatchObject({ current_month_spend_cents: 0, current_day_spend_cents: 0 })
  aheadMs += 5 * MINUTE_MS
  const chargedSeconds = async () => {
    const [row] = await rental.gateway.database.query<{ seconds: bigint }>(
      'select coalesce(sum(instance_seconds), 0)::bigint as seconds from charges where instance_id = $1::uuid',
      [id],
    )
    return Number(row?.seconds)
  }
  await until(async () => (await chargedSeconds()) >= 4 * 60)
  // 240 cents an hour, of which the account shows whole ones.
  const exact = ((await chargedSeconds()) * 240) / 3_600
  const cents = Math.floor(exact)
  expect(cents).toBeGreaterThanOrEqual(16)
  expect(await get(key, LIMIT)).toMatchObject({
    ...{ current_month_spend_cents: cents, current_month_spend_dollars: cents / 100, current_day_spend_cents: cents },
    percent_used: expect.closeTo(exact / 2, 1),
  })
  await end(rented)
})

describe('the events of an instance', () => {
  const TYPES = ['instance.creating', 'instance.running', 'instance.terminated', 'instance.failed']

  async function subscribed(path: string) {
    const key = await rental.gateway.customer({ cents: 10_000 })
    const body = { url: `${receiver.url}${path}`, event_types: TYPES }
    const headers = { 'Idempotency-Key': crypto.randomUUID() }
    const made = await rental.gateway.ask({ path: '/webhook-endpoints', key, body, headers })
    expect(made.status).toBe(201)
    return { key, secret: (made.json as { secret: string }).secret }
  }

  interface InstanceEvent {
    readonly type: string
    readonly data: unknown
  }

  /** Returns the events that came at a path, once there are so many, verified by the library of Stripe, ordered by type. */
  async function eventsAt(path: string, count: number, secret: string): Promise<InstanceEvent[]> {
    const own = () => receiver.received.filter((each) => each.path === path)
    await until(() => own().length >= count)
    const { webhooks } = new Stripe('sk_test_none')
    const events: InstanceEvent[] = []
    for (const { body, headers } of own()) {
      const atSeconds = clock.now() / 1_000
      const signature = headers['svc-signature'] ?? ''
      const event = await webhooks.constructEventAsync(body, signature, secret, undefined, undefined, atSeconds)
      expect(headers['svc-event-id']).toBe(event.id)
      events.push(event as unknown as InstanceEvent)
    }
    return events.sort((one, other) => TYPES.indexOf(one.type) - TYPES.indexOf(other.type))
  }

  test("are delivered to its organization's endpoint, signed, and say these six fields of it", async () => {
    const { key, secret } = await subscribed('/mine')
    await subscribed('/others')
    const body = { ...RENTED, name: 'My server' }
    const { operation_id: operationId, resource_id: id } = operationOf(await rental.create(key, body))
    await rental.ended(key, operationId)
    await end({ key, id })
    const instance = { id, object: 'instance', name: 'My server', gpu_type: 'a100' }
    expect(await eventsAt('/mine', 3, secret)).toEqual([
      expect.objectContaining({
        type: 'instance.creating',
        data: { instance: { ...instance, state: 'creating', reason: null } },
      }),
      expect.objectContaining({
        type: 'instance.running',
        data: { instance: { ...instance, state: 'running', reason: null } },
      }),
      expect.objectContaining({
        type: 'instance.terminated',
        data: { instance: { ...instance, state: 'terminated', reason: 'deleted' } },
      }),
    ])
    expect(receiver.received.filter(({ path }) => path === '/others')).toEqual([])
  })

  test('tell of one that the driver refused, and why it failed', async () => {
    const { key, secret } = await subscribed('/refused')
    await rental.refuse(true)
    const { operation_id: operationId, resource_id: id } = operationOf(await rental.create(key))
    await rental.ended(key, operationId)
    await rental.refuse(false)
    const [, failed] = await eventsAt('/refused', 2, secret)
    const name = `server-${id.slice(-6)}`
    expect(failed).toMatchObject({
      type: 'instance.failed',
      data: {
        instance: { id, object: 'instance', name, gpu_type: 'a100', state: 'failed', reason: 'create_refused' },
      },
    })
  })
})
