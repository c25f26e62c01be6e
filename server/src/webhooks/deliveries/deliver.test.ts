/** Section 6 of the interface and W3: what counts as delivered, when it is tried again, and that nothing is lost or doubled. */

import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { PRIVATE_HOSTS } from '../../../test/privateHosts.ts'
import { rawServer } from '../../../test/rawServer.ts'
import { openWebhookHouse, type WebhookHouse } from '../../../test/webhookHouse.ts'
import { type AnswerWith, type Receiver, startReceiver } from '../../../test/webhookReceiver.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../lib/time.ts'
import { publishEvent } from '../publish.ts'

let house: WebhookHouse
const receivers: { stop(): void }[] = []
beforeAll(async () => {
  house = await openWebhookHouse()
})
afterAll(() => house.close())
afterEach(async () => {
  // The deliveries that one test leaves behind are not the next one's.
  await house.database.query("delete from webhook_deliveries where state = 'pending'")
  for (const receiver of receivers.splice(0)) receiver.stop()
})

async function receive(answer?: AnswerWith): Promise<Receiver> {
  const receiver = await startReceiver(answer)
  receivers.push(receiver)
  return receiver
}

/** An organization with one endpoint there, and an event of it. */
async function published(url: string) {
  const organizationId = await house.organization()
  const endpoint = await house.endpoint(organizationId, url)
  return { organizationId, endpoint, eventId: await house.publish(organizationId) }
}

async function stateOf(eventId: string) {
  const [only] = await house.deliveries(eventId)
  return { state: only?.state, log: only?.log }
}

const answerWith =
  (status: number, headers: Record<string, string> = {}): AnswerWith =>
  (response) =>
    response.writeHead(status, headers).end('words')

test.each<[number, 'delivered' | 'pending']>([
  [200, 'delivered'],
  [201, 'delivered'],
  [202, 'delivered'],
  [204, 'delivered'],
  [299, 'delivered'],
  [301, 'pending'],
  [302, 'pending'],
  [304, 'pending'],
  [307, 'pending'],
  [400, 'pending'],
  [404, 'pending'],
  [410, 'pending'],
  [429, 'pending'],
  [500, 'pending'],
  [503, 'pending'],
])('an answer of %i: %s', async (status, state) => {
  const receiver = await receive(answerWith(status))
  const { eventId } = await published(receiver.url)
  await house.deliverer().run()
  expect(await stateOf(eventId)).toEqual({ state, log: [status] })
})

test('a redirect to the metadata service, or anywhere, is not followed', async () => {
  const elsewhere = await receive()
  const receiver = await receive((response, _received, index) => {
    const location = index === 0 ? `${elsewhere.url}/stolen` : 'http://169.254.169.254/latest/meta-data/'
    response.writeHead(307, { Location: location }).end()
  })
  const { eventId } = await published(receiver.url)
  await house.deliverer().run()
  await house.clock.turn(MINUTE_MS)
  await house.deliverer().run()
  expect(await stateOf(eventId)).toEqual({ state: 'pending', log: [307, 307] })
  expect(elsewhere.received).toEqual([])
})

test.each<[number, number | string]>([
  [9_900, 204],
  [10_100, 'timeout'],
])('an answer of 204 after %i ms: %p', async (delayMs, outcome) => {
  let answer = () => {}
  const receiver = await receive((response) => {
    answer = () => response.writeHead(204).end()
  })
  const { eventId } = await published(receiver.url)
  const running = house.deliverer().run()
  await receiver.until(1)
  await house.clock.turn(delayMs)
  answer()
  await running
  expect((await stateOf(eventId)).log).toEqual([outcome])
})

test('the whole answer counts for the deadline, not its beginning', async () => {
  const server = await rawServer((socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nslow'))
  receivers.push(server)
  const { eventId } = await published(server.url)
  const running = house.deliverer().run()
  await server.requested(1)
  await house.clock.turn(10_100)
  await running
  expect((await stateOf(eventId)).log).toEqual(['timeout'])
})

test('of an endless body 64 KiB are read, and 4 KiB kept', async () => {
  const server = await rawServer((socket) => {
    socket.write('HTTP/1.1 200 OK\r\n\r\n')
    const more = () => {
      while (!socket.destroyed && socket.write('x'.repeat(16_384)));
    }
    socket.on('drain', more)
    more()
  })
  receivers.push(server)
  const { eventId } = await published(server.url)
  await house.deliverer().run()
  await server.closed(1)
  expect(await stateOf(eventId)).toEqual({ state: 'delivered', log: [200] })
  const [kept] = await house.database.query<{ answer: Uint8Array }>(
    `select answer from webhook_attempts a join webhook_deliveries d on d.id = a.delivery_id where d.event_id = $1::uuid`,
    [eventId],
  )
  expect(kept?.answer).toHaveLength(4_096)
})

test.each<[string, string | null, string]>([
  ['garbage', 'SSH-2.0-OpenSSH_9.9\r\n', 'malformed'],
  ['half an answer', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf', 'broken'],
  ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab', 'malformed'],
  ['nothing, and the connection closed', '', 'broken'],
])('%s is a failure', async (_name, bytes, failure) => {
  const server = await rawServer((socket) => socket.end(bytes ?? ''))
  receivers.push(server)
  const { eventId } = await published(server.url)
  await house.deliverer().run()
  expect(await stateOf(eventId)).toEqual({ state: 'pending', log: [failure] })
})

test('a port on which nobody listens is a failure', async () => {
  const receiver = await startReceiver()
  receiver.stop()
  const { eventId } = await published(receiver.url)
  await house.deliverer().run()
  expect(await stateOf(eventId)).toEqual({ state: 'pending', log: ['unreachable'] })
})

test('five attempts, each so long after the failure before, then dead; restarts in between change nothing', async () => {
  const receiver = await receive(answerWith(500))
  const { eventId, endpoint } = await published(receiver.url)
  const gaps = [30 * SECOND_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS]
  for (const [index, gapMs] of gaps.entries()) {
    // A runner of its own each time, as after a restart.
    await house.deliverer().run()
    const [waiting] = await house.deliveries(eventId)
    expect(waiting).toMatchObject({ state: 'pending', attempts: index + 1 })
    expect(waiting?.dueInMs).toBeGreaterThanOrEqual(gapMs)
    expect(waiting?.dueInMs).toBeLessThanOrEqual(gapMs * 1.1)
    await house.clock.turn((waiting?.dueInMs ?? 0) - 1)
    await house.deliverer().run()
    expect(receiver.received).toHaveLength(index + 1)
    await house.clock.turn(1)
  }
  await house.deliverer().run()
  expect(await stateOf(eventId)).toEqual({ state: 'dead', log: [500, 500, 500, 500, 500] })
  await house.clock.turn(24 * HOUR_MS)
  await house.deliverer().run()
  expect(receiver.received).toHaveLength(5)
  // The same bytes and id each time; the signature is of the attempt's own instant.
  const bodies = new Set(receiver.received.map(({ body }) => body))
  const ids = new Set(receiver.received.map(({ headers }) => headers['svc-event-id']))
  const signatures = new Set(receiver.received.map(({ headers }) => headers['svc-signature']))
  expect([bodies.size, ids.size, signatures.size]).toEqual([1, 1, 5])
  for (const { body, headers } of receiver.received) {
    const [, t = '', v1] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(headers['svc-signature'] ?? '') ?? []
    const hmac = new Bun.CryptoHasher('sha256', endpoint.secret.reveal()).update(`${t}.${body}`).digest('hex')
    expect(v1).toBe(hmac)
  }
})

test('an event goes to each endpoint that subscribed to its type before it happened, and to no other', async () => {
  const receiver = await receive()
  const organizationId = await house.organization()
  const other = await house.organization()
  await house.endpoint(organizationId, `${receiver.url}/both`, ['video.failed', 'video.completed'])
  await house.endpoint(organizationId, `${receiver.url}/completed`)
  await house.endpoint(organizationId, `${receiver.url}/failed`, ['video.failed', 'instance.running'])
  await house.endpoint(other, `${receiver.url}/other`)
  await house.publish(organizationId)
  await house.endpoint(organizationId, `${receiver.url}/late`)
  await house.deliverer().run()
  expect(receiver.received.map(({ path }) => path).sort()).toEqual(['/both', '/completed'])
})

test('an event that is rolled back is told to nobody, and one that is published twice once', async () => {
  const receiver = await receive()
  const organizationId = await house.organization()
  await house.endpoint(organizationId, receiver.url)
  const event = { organizationId, type: 'video.completed', createdAtMs: house.clock.now(), data: {} } as const
  const failing = house.database.transaction(async (tx) => {
    await publishEvent(tx, { ...event, id: crypto.randomUUID() }, 10_000)
    throw new Error('what happened did not')
  })
  expect(failing).rejects.toThrow('did not')
  const id = crypto.randomUUID()
  for (let count = 0; count < 2; count += 1) {
    await house.database.transaction((tx) => publishEvent(tx, { ...event, id }, 10_000))
  }
  await house.deliverer().run()
  expect(receiver.received.map(({ headers }) => headers['svc-event-id'])).toEqual([id])
})

test('runners share the work: each delivery arrives once', async () => {
  const receiver = await receive()
  const organizations = await Promise.all(Array.from({ length: 20 }, () => house.organization()))
  for (const organizationId of organizations) await house.endpoint(organizationId, receiver.url)
  const events = []
  for (let round = 0; round < 10; round += 1) {
    for (const organizationId of organizations) events.push(await house.publish(organizationId))
  }
  await Promise.all([house.deliverer().run(), house.deliverer().run(), house.deliverer().run()])
  // A runner does not wait for deliveries that another had in hand.
  await house.deliverer().run()
  const ids = receiver.received.map(({ headers }) => headers['svc-event-id'] ?? '')
  expect(ids.sort()).toEqual(events.sort())
})

test("a dead runner's turn is taken over, and its result counts no more", async () => {
  let answer = () => {}
  const receiver = await receive((response, _received, index) => {
    answer = () => response.writeHead(500).end()
    if (index > 0) response.writeHead(204).end()
  })
  const { eventId } = await published(receiver.url)
  const late = house.deliverer({
    // Its clock stands still: it does not notice that its time is up.
    clock: { now: () => house.clock.now(), monotonicMs: () => 0, after: () => () => {} },
  })
  const running = late.run()
  await receiver.until(1)
  const answerLate = answer
  await house.deliverer().run()
  expect(receiver.received).toHaveLength(1)
  await house.clock.turn(31 * SECOND_MS)
  await house.deliverer().run()
  expect(await stateOf(eventId)).toEqual({ state: 'delivered', log: [204] })
  answerLate()
  await running
  expect(await stateOf(eventId)).toEqual({ state: 'delivered', log: [204] })
})

test('an attempt is written down before anything else is sent: a database that is away makes no endpoint hear twice', async () => {
  const receiver = await receive()
  const { eventId, organizationId } = await published(receiver.url)
  let isAway = true
  const database: Database = {
    ...house.database,
    transaction: (work) => (isAway ? Promise.reject(new Error('away')) : house.database.transaction(work)),
  }
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  const runner = house.deliverer({ database, onAttempt: end })
  const running = runner.run()
  await ended
  // Its lease runs out meanwhile.
  await house.clock.turn(31 * SECOND_MS)
  const next = await house.publish(organizationId)
  isAway = false
  const again = runner.run()
  await house.clock.turn(2 * SECOND_MS)
  await Promise.all([running, again])
  await runner.run()
  const ids = receiver.received.map(({ headers }) => headers['svc-event-id'] ?? '')
  expect(ids).toEqual([eventId, next])
  expect(await stateOf(eventId)).toEqual({ state: 'delivered', log: [204] })
})

test('a stop gives back what was under way: it is no failed attempt', async () => {
  const receiver = await receive((response, _received, index) => {
    if (index > 0) response.writeHead(204).end()
  })
  const { eventId } = await published(receiver.url)
  const stopped = house.deliverer()
  const running = stopped.run()
  await receiver.until(1)
  const closing = stopped.close()
  await house.clock.turn(2_000)
  await running
  await house.clock.turn(2_000)
  await closing
  expect(await stateOf(eventId)).toEqual({ state: 'pending', log: [] })
  await house.deliverer().run()
  expect(await stateOf(eventId)).toEqual({ state: 'delivered', log: [204] })
})

test('an endpoint that hangs gets two at a time in the slow lane, and delays nobody', async () => {
  const hanging = await receive(() => {})
  const healthy = await receive()
  const slow = await published(hanging.url)
  const running = house.deliverer().run()
  await hanging.until(1)
  await house.clock.turn(10_100)
  await running
  for (let count = 0; count < 9; count += 1) await house.publish(slow.organizationId)
  const fine = await published(healthy.url)
  const again = house.deliverer().run()
  await hanging.until(3)
  await healthy.until(1)
  // All others of the slow one wait for these two.
  await house.deliverer().run()
  expect(hanging.received).toHaveLength(3)
  await house.clock.turn(10_100)
  await again
  expect((await stateOf(fine.eventId)).state).toBe('delivered')
  const [turn] = await house.database.query<{ is_slow: boolean }>(
    'select is_slow from webhook_turns where endpoint_id = $1::uuid',
    [slow.endpoint.id],
  )
  expect(turn?.is_slow).toBe(true)
})

const NO_HTTP = { send: () => Promise.reject(new Error('nobody sends this')), close: () => {} }

test.each<[string, string[][], string]>([
  ['leads inside', [['10.0.0.1']], 'refused_address'],
  ['has one foot inside', [['8.8.8.8', '169.254.169.254']], 'refused_address'],
  ['leads nowhere', [[]], 'unresolved'],
])('a name that %s is connected to by nobody', async (_name, answers, failure) => {
  const connected: string[] = []
  const http = { ...NO_HTTP, post: async (url: string) => Promise.reject(connected.push(url)) }
  const { eventId } = await published('https://hook.example/')
  await house.deliverer({ http, resolve: async () => answers[0] ?? [] }).run()
  expect(connected).toEqual([])
  expect((await stateOf(eventId)).log).toEqual([failure])
})

test('a name that changes between check and connection is resolved once, and what was checked is connected to', async () => {
  const answers = [['127.0.0.2'], ['10.0.0.1']]
  const addresses: (string | undefined)[] = []
  let lookUps = 0
  const { eventId } = await published('https://hook.example/')
  const http = {
    post: async (_url: string, { address }: { address?: string }) => {
      addresses.push(address)
      throw new Error('stop here')
    },
    ...NO_HTTP,
  }
  await house.deliverer({ http, resolve: async () => answers[lookUps++] ?? [] }).run()
  expect([lookUps, addresses]).toEqual([1, ['127.0.0.2']])
  expect((await stateOf(eventId)).log).toEqual(['internal'])
})

test(`none of ${PRIVATE_HOSTS.length} private hosts is connected to, though an endpoint is there already`, async () => {
  const connected: string[] = []
  const lookedUp: string[] = []
  const http = {
    post: async (url: string) => {
      connected.push(url)
      throw new Error('nobody may come here')
    },
    ...NO_HTTP,
  }
  const events: string[] = []
  for (let start = 0; start < PRIVATE_HOSTS.length; start += 25) {
    const organizationId = await house.organization()
    for (const [index, host] of PRIVATE_HOSTS.slice(start, start + 25).entries()) {
      // As if its network had been open when it was made.
      for (const scheme of ['http', 'https']) await house.endpoint(organizationId, `${scheme}://${host}/hook${index}`)
    }
    events.push(await house.publish(organizationId))
  }
  const resolve = async (name: string) => {
    lookedUp.push(name)
    return []
  }
  await house.deliverer({ http, resolve, allowed: [] }).run()
  expect([connected, lookedUp]).toEqual([[], []])
  const logs = (await Promise.all(events.map((eventId) => house.deliveries(eventId)))).flat().map(({ log }) => log)
  expect(logs).toEqual(PRIVATE_HOSTS.flatMap(() => [['refused_address'], ['refused_address']]))
})
