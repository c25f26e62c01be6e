import { afterAll, describe, expect, test } from 'bun:test'
import { deflateSync, gzipSync } from 'node:zlib'
import { TurnedClock } from '../../test/clock.ts'
import { SILENCE } from '../../test/silence.ts'
import { createBodyDeadlines } from './bodyDeadline.ts'
import { createBodyWork } from './bodyWork.ts'
import { createBodyMemory, LARGE_BODY_BYTES } from './limits/bodyMemory.ts'
import { readBody } from './readBody.ts'

const MIB = 1 << 20
const LIMIT_BYTES = 8 * MIB
const DEADLINE_MS = 60_000

const work = createBodyWork(SILENCE, new TurnedClock())
afterAll(() => work.close())

/** A body of the key, and the memory of all: eight times the limit. */
function stage() {
  const clock = new TurnedClock()
  const memory = createBodyMemory(8 * LIMIT_BYTES, 1_024)
  const deadlines = createBodyDeadlines(clock, DEADLINE_MS)
  const read = (body: BodyInit, headers: HeadersInit = {}, organization = 'organization') => {
    const reservation = memory.open(organization === 'organization' ? 'key' : `key of ${organization}`, organization)
    const request = new Request('http://gateway.test/', { method: 'POST', body, headers })
    return { reservation, done: readBody(request, { limitBytes: LIMIT_BYTES, memory: reservation, deadlines, work }) }
  }
  return { clock, memory, read }
}

/** Bytes that come as soon as they are asked for; without an end where `ends` is false. */
function streamOf(bytes: Uint8Array, ends = true) {
  let isCancelled = false
  const stream = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        controller.enqueue(bytes)
        if (ends) controller.close()
      },
      cancel() {
        isCancelled = true
      },
    },
    { highWaterMark: 0 },
  )
  return { stream, isCancelled: () => isCancelled }
}

const saidOf = (read: Awaited<ReturnType<typeof readBody>>) =>
  read.ok ? 'read' : `${read.refusal.code}: ${read.refusal.message}`

const gzip = { 'Content-Encoding': 'gzip' }
/** Turns of the event loop, of which decompression takes one a piece. */
const turns = async (count: number) => {
  for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

test('while a body in many small pieces is read, others have their turn', async () => {
  const { read } = stage()
  const pieces = 10_240
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      for (let piece = 0; piece < pieces; piece += 1) controller.enqueue(new Uint8Array([piece]))
      controller.close()
    },
  })
  let turnsOfOthers = 0
  let isRead = false
  const watch = () => {
    turnsOfOthers += 1
    if (!isRead) setImmediate(watch)
  }
  setImmediate(watch)
  const body = await read(stream).done
  isRead = true
  expect(body.ok && body.value.byteLength).toBe(pieces)
  expect(turnsOfOthers).toBeGreaterThanOrEqual(pieces / 256)
})

describe('a body', () => {
  test.each<[string, Uint8Array, (bytes: Uint8Array) => [Uint8Array, HeadersInit]]>([
    ['announced, small', new Uint8Array(1_000).fill(7), (bytes) => [bytes, { 'Content-Length': '1000' }]],
    ['announced, large', new Uint8Array(3 * MIB).fill(7), (bytes) => [bytes, { 'Content-Length': `${3 * MIB}` }]],
    ['gzip', new Uint8Array(3 * MIB).fill(7), (bytes) => [gzipSync(bytes), gzip]],
    ['deflate', new Uint8Array(3 * MIB).fill(7), (bytes) => [deflateSync(bytes), { 'Content-Encoding': 'deflate' }]],
    ['as long as may be', new Uint8Array(LIMIT_BYTES).fill(7), (bytes) => [bytes, {}]],
    ['of nothing', new Uint8Array(), (bytes) => [bytes, {}]],
  ])('%s: is read whole, and takes its bytes of memory', async (_name, bytes, sent) => {
    const { memory, read } = stage()
    const [body, headers] = sent(bytes)
    const result = await read(streamOf(body).stream, headers).done
    expect(result.ok && Buffer.from(result.value).equals(bytes)).toBe(true)
    expect(memory.takenBytes).toBe(bytes.byteLength)
  })

  test('that is compressed takes no more than was sent of it until it is whole', async () => {
    const { memory, read } = stage()
    const unfolded = gzipSync(new Uint8Array(LIMIT_BYTES))
    // Its last bytes never come.
    const bodies = Array.from({ length: 400 }, () => read(streamOf(unfolded.subarray(0, -100), false).stream, gzip))
    await turns(20)
    expect(memory.takenBytes).toBe(400 * LARGE_BODY_BYTES)
    for (const { reservation } of bodies) reservation.close()
    expect(memory.takenBytes).toBe(0)
  })

  test('is refused when its key has taken its share of the memory, an announced one before any of it is read', async () => {
    const { memory, read } = stage()
    const bomb = gzipSync(new Uint8Array(LIMIT_BYTES))
    const inflated = Array.from({ length: 4 }, () => read(streamOf(bomb).stream, gzip))
    const reads = await Promise.all(inflated.map(({ done }) => done))
    expect(reads.map(saidOf)).toEqual(['read', 'read', 'read', 'read'])
    const announced = streamOf(new Uint8Array(8), false)
    const { done } = read(announced.stream, { 'Content-Length': `${LIMIT_BYTES}` })
    expect(await done).toMatchObject({ ok: false, refusal: { code: 'rate_limit_exceeded', retryAfterSeconds: 1 } })
    for (const { reservation } of inflated) reservation.close()
    expect(memory.takenBytes).toBe(0)
  })

  test.each([
    ['announced, small', { 'Content-Length': `${LARGE_BODY_BYTES}` }],
    ['announced, large', { 'Content-Length': `${4 * MIB}` }],
    ['compressed', { ...gzip, 'Content-Length': `${LARGE_BODY_BYTES}` }],
  ])(
    '%s: bodies of which nothing comes stop nobody: the oldest is refused when others need its memory',
    async (_name, headers) => {
      const { memory, read } = stage()
      const idle = ['one', 'two', 'three'].flatMap((organization) =>
        Array.from({ length: 1_024 }, () => read(streamOf(Buffer.from('x'), false).stream, headers, organization)),
      )
      const full = memory.takenBytes
      expect(full).toBeGreaterThanOrEqual(56 * MIB)
      const body = read(streamOf(new Uint8Array(7 * MIB)).stream, { 'Content-Length': `${7 * MIB}` }, 'honest')
      expect(saidOf(await body.done)).toBe('read')
      const first = await idle[0]?.done
      expect(first && saidOf(first)).toMatch(/^rate_limit_exceeded: .* had not arrived when others needed its memory/)
      for (const { reservation } of [...idle, body]) reservation.close()
      await turns(2)
      expect(memory.takenBytes).toBe(0)
    },
  )

  test.each([
    ['announced, small', 'abc', { 'Content-Length': '10' }],
    ['not announced', 'abc', {}],
    ['compressed', gzipSync('abc').subarray(0, 12), gzip],
  ])('%s: refused once its deadline has passed, whatever still comes', async (_name, some, headers) => {
    const { clock, read } = stage()
    const { done } = read(streamOf(Buffer.from(some), false).stream, headers)
    await turns(2)
    await clock.turn(DEADLINE_MS - 1)
    expect(await Promise.race([done, 'under way'])).toBe('under way')
    await clock.turn(1)
    expect(saidOf(await done)).toMatch(/^invalid_request: .* did not arrive in time/)
  })

  test('beyond the limit is refused, and its sender is told to stop', async () => {
    const { read } = stage()
    const sent = streamOf(new Uint8Array(LIMIT_BYTES + 1), false)
    expect(await read(sent.stream).done).toMatchObject({ ok: false, refusal: { code: 'request_too_large' } })
    await turns(2)
    expect(sent.isCancelled()).toBe(true)
  })

  test.each([
    ['cut off', gzipSync('abcdef').subarray(0, -4)],
    ['not what was announced', Buffer.from('abcdef')],
  ])('%s: refused as unreadable', async (_name, bytes) => {
    const { read } = stage()
    expect(saidOf(await read(streamOf(bytes).stream, gzip).done)).toMatch(/^invalid_request: .* could not be read/)
  })
})
