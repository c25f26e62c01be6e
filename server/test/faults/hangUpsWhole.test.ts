/**
 * A client that hangs up on a call for embeddings or images pays nothing before its request was written to a target. After that
 * the call runs to its end: it is charged, and keeps its place and its memory until then.
 */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { findImbalances } from '../../src/billing/charges/store.ts'
import { SECOND_MS } from '../../src/lib/time.ts'
import { drawText } from '../../src/providers/sandbox/picture.ts'
import { TurnedClock } from '../clock.ts'
import { makeKey, type TestKey } from '../customer.ts'
import { metric } from '../metricsPage.ts'
import { type OpenPort, openPortWith } from '../openPort.ts'
import { type RawServer, rawServer } from '../rawServer.ts'
import { type SteppedCall, type SteppedProvider, startSteppedProvider } from './steppedProvider.ts'

/** Nothing here waits for a clock; a machine that is busy with other things may still be slow. */
setDefaultTimeout(60_000)

/** Open requests of one key. */
const PLACES = 100

/** How long a target for embeddings may take. */
const FIRST_BYTE_MS = 30 * SECOND_MS

/** More than the system keeps for a server that does not read. */
const LARGE_CHARACTERS = 48 << 20

/** A target that takes connections and reads nothing. */
interface DeafServer {
  readonly url: string
  /** Resolves with the next connection that has not been taken yet. */
  next(): Promise<{ readonly socket: Socket; readonly closed: Promise<unknown> }>
  stop(): void
}

let first: SteppedProvider
let second: SteppedProvider
let deaf: DeafServer
/** Reads requests whole, and breaks their connections once the test says so. */
let breaking: RawServer
let breakOff: () => void
let port: OpenPort
/** The same gateway on a clock that the test turns. */
let late: OpenPort
const clock = new TurnedClock()
let image: string
let hangUps = 0

beforeAll(async () => {
  first = await startSteppedProvider()
  second = await startSteppedProvider()
  deaf = await startDeafServer()
  const told = new Promise<void>((resolve) => {
    breakOff = resolve
  })
  breaking = await rawServer((socket) => void told.then(() => socket.destroy()))
  port = await openPortWith(settings())
  late = await openPortWith(settings(), clock)
  image = (await drawText(['image'], { width: 64, height: 64 }, 1)).toString('base64')
})

afterAll(async () => {
  for (const provider of [first, second, deaf, breaking]) provider.stop()
  await port.close()
  await late.close()
})

function settings(): string {
  const model = (id: string, kind: string, ...targets: string[]) => `
  - id: svc/${id}
    ${kind}
    targets: [${targets.map((name) => `{ provider: ${name}, model: m }`).join(', ')}]`
  const embedding =
    'modality: embedding\n    context_length: 100000000\n    pricing: { input_per_1m_tokens_cents: 1000000 }'
  const images = 'modality: image\n    pricing: { per_image_cents: 2 }'
  return `
deadlines: { first_byte_seconds: ${FIRST_BYTE_MS / SECOND_MS} }
open_requests_per_key: ${PLACES}
body_limit_bytes: ${64 << 20}
breaker_failures: 1000
providers:
  first: { dialect: openai, base_url: "${first.url}" }
  second: { dialect: openai, base_url: "${second.url}" }
  deaf: { dialect: openai, base_url: "${deaf.url}/v1" }
  breaking: { dialect: openai, base_url: "${breaking.url}/v1" }
models:${model('vectors', embedding, 'first')}${model('images', images, 'first')}
${model('deaf-vectors', embedding, 'deaf')}${model('deaf-images', images, 'deaf')}
${model('breaking-vectors', embedding, 'breaking', 'second')}
${model('vectors-of-two', embedding, 'first', 'second')}${model('images-of-two', images, 'first', 'second')}
`
}

async function startDeafServer(): Promise<DeafServer> {
  const connections: { readonly socket: Socket; readonly closed: Promise<unknown> }[] = []
  const waiting: (() => void)[] = []
  let taken = 0
  const server: Server = createServer({ pauseOnConnect: true }, (socket) => {
    socket.on('error', () => {})
    connections.push({ socket, closed: new Promise((resolve) => socket.once('close', resolve)) })
    for (const wake of waiting.splice(0)) wake()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async next() {
      const index = taken
      taken += 1
      for (;;) {
        const connection = connections[index]
        if (connection !== undefined) return connection
        await new Promise<void>((resolve) => waiting.push(resolve))
      }
    },
    stop() {
      for (const { socket } of connections) socket.destroy()
      server.close()
    },
  }
}

/** A call that is under way, and its client's way to hang up. */
function call(key: TestKey, path: string, body: object) {
  const leaving = new AbortController()
  const response = port.send(key, path, body, leaving.signal)
  response.catch(() => {})
  return {
    response,
    async hangUp(): Promise<void> {
      hangUps += 1
      leaving.abort()
      await port.hungUp(hangUps)
    },
  }
}

const embed = (key: TestKey, model: string, input = 'Hello') => call(key, '/embeddings', { model, input })
const draw = (key: TestKey, model: string, n = 5) => call(key, '/images/generations', { model, prompt: 'A fox', n })

/** The whole answer of a server. */
function answer({ socket }: SteppedCall, body: object, status = '200 OK'): void {
  const text = JSON.stringify(body)
  socket.write(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  )
}

const VECTOR = { data: [{ index: 0, embedding: [1, 2] }], usage: { prompt_tokens: 3 } }
const drawn = (count: number) => ({ data: Array.from({ length: count }, () => ({ b64_json: image })) })
const busy = (asked: SteppedCall) => answer(asked, { error: { message: 'busy' } }, '503 Service Unavailable')

interface Charged {
  readonly outcome: string
  readonly estimated: boolean
  readonly prompt: bigint
  readonly images: bigint | null
  readonly cost: bigint
}

function charges({ organizationId }: TestKey, { gateway } = port): Promise<Charged[]> {
  return gateway.database.query<Charged & Record<string, unknown>>(
    `select outcome, estimated, prompt_tokens as prompt, image_count as images, cost_microcents as cost from named_charges
     where organization_id = $1::uuid order by admitted_at, id`,
    [organizationId],
  )
}

/** Turns in which whatever was to happen at once has happened. */
async function someTurns(): Promise<void> {
  for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

const vectorCharge = { outcome: 'completed', estimated: false, prompt: 3n, cost: 3_000_000n }
const imagesCharge = { outcome: 'completed', images: 5, cost: 10_000_000n }

describe('after the request was written', () => {
  test('five images are made, and charged', async () => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const { hangUp } = draw(key, 'svc/images')
    const asked = await first.next()
    await hangUp()
    await someTurns()
    expect(asked.socket.destroyed).toBe(false)
    expect(await metric(port.gateway.app, 'open_requests')).toBe(1)
    answer(asked, drawn(5))
    await port.idle()
    expect(await charges(key)).toMatchObject([imagesCharge])
    expect(await findImbalances(port.gateway.database)).toEqual([])
  })

  test('embeddings are made, and charged', async () => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const { hangUp } = embed(key, 'svc/vectors')
    const asked = await first.next()
    await hangUp()
    await someTurns()
    expect(asked.socket.destroyed).toBe(false)
    answer(asked, VECTOR)
    await port.idle()
    expect(await charges(key)).toMatchObject([vectorCharge])
  })

  test('half an answer, too, is waited for', async () => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const { hangUp } = embed(key, 'svc/vectors')
    const asked = await first.next()
    const text = JSON.stringify(VECTOR)
    asked.socket.write(`HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n{`)
    await hangUp()
    await someTurns()
    asked.socket.write(text.slice(1))
    await port.idle()
    expect(await charges(key)).toMatchObject([vectorCharge])
  })

  test.each([
    ['refuses', (asked: SteppedCall) => busy(asked)],
    ['breaks off', (asked: SteppedCall) => asked.socket.destroy()],
    ['answers nonsense', (asked: SteppedCall) => answer(asked, { data: 'none' })],
  ])('a target that %s then costs nothing', async (_name, fail) => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const { hangUp } = draw(key, 'svc/images')
    const asked = await first.next()
    await hangUp()
    fail(asked)
    await port.idle()
    expect(await charges(key)).toEqual([])
    expect(await findImbalances(port.gateway.database)).toEqual([])
  })
})

describe('before the request was written', () => {
  test('embeddings: the provider is cancelled, and nothing is charged', async () => {
    const key = await port.gateway.customer({ cents: 100_000_000 })
    const { hangUp } = embed(key, 'svc/deaf-vectors', 'x'.repeat(LARGE_CHARACTERS))
    const { socket, closed } = await deaf.next()
    await someTurns()
    await hangUp()
    await port.idle()
    socket.resume()
    await closed
    expect(socket.bytesRead).toBeLessThan(LARGE_CHARACTERS)
    expect(await charges(key)).toEqual([])
  })

  test('images: the provider is cancelled, and nothing is charged', async () => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const body = { model: 'svc/deaf-images', prompt: 'x'.repeat(LARGE_CHARACTERS) }
    const { hangUp } = call(key, '/images/generations', body)
    await deaf.next()
    await someTurns()
    await hangUp()
    await port.idle()
    expect(await charges(key)).toEqual([])
  })
})

describe('with failover', () => {
  test.each(['vectors', 'images'])(
    '%s: a target that refuses after the hang-up: nobody else is asked',
    async (kind) => {
      const key = await port.gateway.customer({ cents: 1_000 })
      const count = second.count
      const { hangUp } = kind === 'images' ? draw(key, 'svc/images-of-two') : embed(key, 'svc/vectors-of-two')
      const asked = await first.next()
      await hangUp()
      busy(asked)
      await port.idle()
      expect(second.count).toBe(count)
      expect(await charges(key)).toEqual([])
    },
  )

  test('a target that refused before the hang-up: the next one makes the answer, and it is charged', async () => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const { hangUp } = draw(key, 'svc/images-of-two')
    busy(await first.next())
    const asked = await second.next()
    await hangUp()
    answer(asked, drawn(5))
    await port.idle()
    expect(await charges(key)).toMatchObject([imagesCharge])
  })

  test('a target whose connection breaks after the hang-up: nobody else is asked', async () => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const count = second.count
    const { hangUp } = embed(key, 'svc/breaking-vectors')
    await breaking.requested(1)
    await hangUp()
    breakOff()
    await port.idle()
    expect(second.count).toBe(count)
    expect(await charges(key)).toEqual([])
  })

  test('a target that is late: the next one is asked, and its answer is charged', async () => {
    const key = await late.gateway.customer({ cents: 1_000 })
    const leaving = new AbortController()
    const response = late.send(key, '/embeddings', { model: 'svc/vectors-of-two', input: 'Hello' }, leaving.signal)
    response.catch(() => {})
    await first.next()
    leaving.abort()
    await late.hungUp(1)
    await clock.turn(FIRST_BYTE_MS)
    answer(await second.next(), VECTOR)
    await late.idle()
    expect(await charges(key, late)).toMatchObject([vectorCharge])
  })
})

test('while they run they keep their places: the next call of the key is refused, and served when they are over', async () => {
  const key = await port.gateway.customer({ cents: 1_000 })
  const asked: SteppedCall[] = []
  for (let place = 0; place < PLACES; place += 1) {
    const { hangUp } = draw(key, 'svc/images', 1)
    asked.push(await first.next())
    await hangUp()
  }
  const refused = await draw(key, 'svc/images', 1).response
  expect(refused.status).toBe(429)
  expect(await refused.json()).toMatchObject({ error: { code: 'stream_limit_exceeded' } })
  for (const each of asked) answer(each, drawn(1))
  await port.idle()
  expect(await charges(key)).toHaveLength(PLACES)
  const { response } = draw(key, 'svc/images', 1)
  answer(await first.next(), drawn(1))
  expect((await response).status).toBe(200)
  await port.idle()
})

test('they keep the memory of a large answer, and give it back when it is charged', async () => {
  const key = await port.gateway.customer({ cents: 1_000 })
  const { hangUp } = draw(key, 'svc/images', 1)
  const asked = await first.next()
  // Bytes behind the end of a PNG are part of no image.
  const large = Buffer.concat([Buffer.from(image, 'base64'), Buffer.alloc(3_000_000)]).toString('base64')
  const text = JSON.stringify({ data: [{ b64_json: large }] })
  asked.socket.write(
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text.slice(0, 9)}`,
  )
  while ((await metric(port.gateway.app, 'large_answer_bytes')) === 0)
    await new Promise((resolve) => setImmediate(resolve))
  await hangUp()
  await someTurns()
  expect(await metric(port.gateway.app, 'large_answer_bytes')).toBeGreaterThan(text.length)
  asked.socket.write(text.slice(9))
  await port.idle()
  while ((await metric(port.gateway.app, 'large_answer_bytes')) !== 0)
    await new Promise((resolve) => setImmediate(resolve))
  expect(await charges(key)).toMatchObject([{ images: 1, cost: 2_000_000n }])
})

test('a call that waits for money when its client hangs up is never sent', async () => {
  const rich = await port.gateway.customer({ cents: 20 })
  const { response } = draw(rich, 'svc/images', 10)
  const asked = await first.next()
  const count = first.count
  const other = await makeKey(port.gateway.database, rich.organizationId)
  const waiting = draw(other, 'svc/images', 10)
  while ((await metric(port.gateway.app, 'calls_waiting_for_money')) === 0)
    await new Promise((resolve) => setImmediate(resolve))
  await waiting.hangUp()
  answer(asked, drawn(1))
  expect((await response).status).toBe(200)
  await port.idle()
  expect(first.count).toBe(count)
  expect(await charges(rich)).toHaveLength(1)
})
