/** Videos over HTTP: with the official `openai` client, and asked by hand. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import OpenAI, { APIError } from 'openai'
import { listen } from '../../src/infra/httpServer.ts'
import type { TestKey } from '../customer.ts'
import { type ScriptedVideos, scriptVideos, testVideo } from '../scriptedVideos.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'

setDefaultTimeout(60_000)

const SETTINGS = `
providers:
  sandbox: { dialect: sandbox }
models:
  - id: svc/film
    aliases: [film]
    modality: video
    pricing: { per_video_second_microcents: 7300000 }
    video: { concurrency: 2, deadline_seconds: 60 }
    parameters:
      - { name: seconds, type: int, min: 2, max: 20, default: 4 }
      - { name: size, type: enum, enum: ["1280x720", "64x64"], default: "1280x720" }
    targets: [{ provider: sandbox, model: film }]
  - id: svc/plain
    modality: video
    pricing: { per_video_second_cents: 10 }
    video: { concurrency: 2 }
    parameters: [{ name: seconds, type: int, min: 1, max: 5, default: 5 }]
    targets: [{ provider: sandbox, model: plain }]
`

let gateway: AskedGateway
let provider: ScriptedVideos
let url: string
let stop: () => Promise<void>
let key: TestKey
/** Jobs are done as soon as they are looked at, unless a test says otherwise. */
let isHeld = false

beforeAll(async () => {
  provider = scriptVideos()
  provider.looking = (job) => (isHeld ? { kind: 'working', progress: 41.7 } : job.state)
  gateway = await openAskedGateway({ settings: SETTINGS, videos: provider })
  const server = listen({
    host: '127.0.0.1',
    port: 0,
    maxBodyBytes: 1 << 30,
    handle: gateway.app.handle,
    onError: (error) => new Response(String(error), { status: 500 }),
  })
  url = `http://127.0.0.1:${server.port}/v1`
  stop = () => server.kill()
  key = await gateway.customer({ cents: 100_000 })
})
afterAll(async () => {
  await stop()
  await gateway.close()
})

const clientOf = ({ key: apiKey }: TestKey) => new OpenAI({ baseURL: url, apiKey })
const create = (more: object = {}, headers: Record<string, string> = {}, of = key) =>
  gateway.post(of, '/videos', { model: 'svc/film', prompt: 'a cat', ...more }, headers)

/** Polls as a client does. */
async function until(id: string, status: string, of = key): Promise<Record<string, unknown>> {
  for (;;) {
    const job = await (await gateway.get(of, `/videos/${id}`)).json()
    if (job.status === status) return job
    await new Promise((resolve) => setImmediate(resolve))
  }
}

async function held<T>(work: () => Promise<T>): Promise<T> {
  isHeld = true
  try {
    return await work()
  } finally {
    isHeld = false
  }
}

describe('the official client', () => {
  test('creates, polls, downloads; the cost is the charge', async () => {
    const customer = await gateway.customer({ cents: 1_000 })
    const client = clientOf(customer)
    const created = await client.videos.create({ model: 'film' as 'sora-2', prompt: 'a cat', seconds: '8' })
    expect(created).toMatchObject({ object: 'video', model: 'svc/film', status: 'queued', progress: 0, seconds: 8 })
    const done = await until(created.id, 'completed', customer)
    expect(done).toMatchObject({ cost_cents: 59, seconds: 8, progress: 100, error: null })
    expect(Number(done['expires_at'])).toBe(Number(done['completed_at']) + 86_400)
    const content = await client.videos.downloadContent(created.id)
    expect(content.headers.get('content-type')).toBe('video/mp4')
    expect(await content.bytes()).toEqual(testVideo(8))
    const rows = await gateway.database.query<{ cost: bigint; seconds: number }>(
      'select cost_microcents as cost, video_seconds as seconds from charges where id = $1::uuid',
      [created.id],
    )
    expect(rows).toEqual([{ cost: 59_000_000n, seconds: 8 }])
    const balance = await (await gateway.get(customer, '/billing/balance')).json()
    expect(balance.balance_cents).toBe(1_000 - 59)
    const usage = await (await gateway.get(customer, '/usage')).json()
    expect(usage.data.map(({ cost_cents: cents }: { cost_cents: number }) => cents)).toEqual([59])
  })

  test('lists through several pages, in both orders', async () => {
    const customer = await gateway.customer({ cents: 100_000 })
    const client = clientOf(customer)
    const made: string[] = []
    for (let index = 0; index < 7; index += 1) {
      made.push((await client.videos.create({ model: 'svc/film' as 'sora-2', prompt: `${index}` })).id)
    }
    const listed: string[] = []
    for await (const video of client.videos.list({ limit: 3 })) listed.push(video.id)
    expect(listed).toEqual([...made].reverse())
    const upwards: string[] = []
    for await (const video of client.videos.list({ limit: 2, order: 'asc' })) upwards.push(video.id)
    expect(upwards).toEqual(made)
  })

  test('is told in its own words what is refused', async () => {
    const { videos } = clientOf(await gateway.customer({ cents: 1 }))
    const create = (more: object) => videos.create({ model: 'svc/film' as 'sora-2', prompt: 'a cat', ...more })
    const none = crypto.randomUUID()
    for (const [work, status, code, type, param] of [
      [() => create({}), 402, 'insufficient_balance', 'billing_error', null],
      [() => create({ seconds: '1' }), 400, 'invalid_request', 'invalid_request_error', 'seconds'],
      [() => create({ model: 'svc/none' }), 404, 'model_not_found', 'invalid_request_error', 'model'],
      [
        () => create({ input_reference: new File(['x'], 'x.png') }),
        400,
        'unsupported_parameter',
        'invalid_request_error',
        'input_reference',
      ],
      [() => videos.retrieve(none), 404, 'not_found', 'invalid_request_error', null],
      [() => videos.downloadContent(none), 404, 'not_found', 'invalid_request_error', null],
      [() => videos.list({ after: none }), 422, 'validation_failed', 'invalid_request_error', 'after'],
    ] as const) {
      const failure = await work().catch((error: unknown) => error)
      expect(failure).toBeInstanceOf(APIError)
      expect(failure).toMatchObject({ status, code, type, param, requestID: expect.stringMatching(/^[0-9a-f]{32}$/) })
    }
  })

  test('sends another form each time, and gets the same job for the same Idempotency-Key (D4)', async () => {
    const { videos } = clientOf(await gateway.customer())
    const options = { headers: { 'Idempotency-Key': crypto.randomUUID() } }
    const create = (prompt: string) => videos.create({ model: 'film' as 'sora-2', prompt }, options)
    const made = await create('a cat')
    expect(await create('a cat')).toEqual(made)
    expect(await create('a dog').catch((error: unknown) => error)).toMatchObject({ code: 'idempotency_mismatch' })
  })
})

describe('create', () => {
  test.each([
    ['no prompt', { prompt: undefined }, 422, 'validation_failed', 'prompt'],
    ['an empty prompt', { prompt: '' }, 422, 'validation_failed', 'prompt'],
    ['a prompt that no database takes', { prompt: 'a\0b' }, 422, 'validation_failed', 'prompt'],
    ['seconds of nothing', { seconds: 0 }, 422, 'validation_failed', 'seconds'],
    ['half seconds', { seconds: 2.5 }, 422, 'validation_failed', 'seconds'],
    ['seconds in words', { seconds: 'four' }, 422, 'validation_failed', 'seconds'],
    ['fewer than the model makes', { seconds: 1 }, 400, 'invalid_request', 'seconds'],
    ['more than the model makes', { seconds: '21' }, 400, 'invalid_request', 'seconds'],
    ['a size that is none', { size: 'large' }, 422, 'validation_failed', 'size'],
    ['a size that the model does not make', { size: '1x1' }, 400, 'invalid_request', 'size'],
    ['a size where there is none', { model: 'svc/plain', size: '64x64' }, 400, 'unsupported_parameter', 'size'],
    ['what is not known', { input_reference: 'x' }, 400, 'unsupported_parameter', 'input_reference'],
    ['a model that is none', { model: 'svc/none' }, 404, 'model_not_found', 'model'],
  ])('refuses %s', async (_, more, status, code, param) => {
    const answer = await create(more)
    expect(answer.status).toBe(status)
    expect((await answer.json()).error).toMatchObject({ code, param })
  })

  test('takes a form, but no file in it and nothing twice', async () => {
    const send = (fields: [string, string | Blob][]) => {
      const body = new FormData()
      for (const [name, value] of fields) body.append(name, value)
      return gateway.send('/videos', { method: 'POST', headers: { Authorization: `Bearer ${key.key}` }, body })
    }
    const good: [string, string][] = [
      ['model', 'svc/film'],
      ['prompt', 'a cat'],
      ['seconds', '2'],
      ['size', '64x64'],
    ]
    const made = await send(good)
    expect(made.status).toBe(202)
    expect(await made.json()).toMatchObject({ seconds: 2, size: '64x64' })
    const withFile = await send([...good, ['input_reference', new Blob(['x'])]])
    expect((await withFile.json()).error).toMatchObject({ code: 'unsupported_parameter', param: 'input_reference' })
    const twice = await send([...good, ['prompt', 'a dog']])
    expect((await twice.json()).error).toMatchObject({ code: 'validation_failed', param: 'prompt' })
  })

  test('with a key is done once, and its answer is given again', async () => {
    const headers = { 'Idempotency-Key': crypto.randomUUID() }
    const first = await create({ seconds: 3 }, headers)
    expect(first.status).toBe(202)
    const text = await first.text()
    const again = await create({ seconds: 3 }, headers)
    expect([again.status, again.headers.get('Idempotency-Replayed')]).toEqual([202, 'true'])
    expect(await again.text()).toBe(text)
    expect((await create({ seconds: 4 }, headers)).status).toBe(422)
  })

  test('asks back what calls hold idle, and refuses what even that does not cover', async () => {
    const customer = await gateway.customer({ cents: 30 })
    const made = await create({}, {}, customer)
    expect(made.status).toBe(202)
    const second = await create({}, {}, customer)
    expect((await second.json()).error).toMatchObject({ code: 'insufficient_balance' })
  })
})

describe('a job', () => {
  test('of another organization is none', async () => {
    const { id } = await (await create()).json()
    const other = await gateway.customer()
    for (const path of [`/videos/${id}`, `/videos/${id}/content`]) {
      const answer = await gateway.get(other, path)
      expect([answer.status, (await answer.json()).error.code]).toEqual([404, 'not_found'])
    }
    expect((await gateway.post(other, `/videos/${id}/cancel`, {})).status).toBe(404)
    expect((await (await gateway.get(other, '/videos')).json()).data).toEqual([])
    const after = await gateway.get(other, `/videos?after=${id}`)
    expect([after.status, (await after.json()).error.param]).toEqual([422, 'after'])
    for (const malformed of ['x', '%00', '..%2f..']) {
      expect((await gateway.get(key, `/videos/${malformed}`)).status).toBe(404)
    }
  })

  test('says its place while it waits, its progress while it runs, and can be cancelled', async () => {
    await held(async () => {
      const customer = await gateway.customer({ cents: 10_000 })
      const made = []
      const plain = { model: 'svc/plain' }
      for (let index = 0; index < 4; index += 1) made.push((await (await create(plain, {}, customer)).json()).id)
      const [first = '', second = '', third = '', fourth = ''] = made
      await until(second, 'in_progress', customer)
      const job = await until(first, 'in_progress', customer)
      expect([0, 41]).toContain(Number(job['progress']))
      const waiting = await gateway.get(customer, `/videos/${fourth}`)
      expect(waiting.headers.get('Svc-Queue-Position')).toBe('2')
      const none = await gateway.get(customer, `/videos/${first}/content`)
      expect([none.status, (await none.json()).error.message]).toEqual([404, expect.stringContaining("'in_progress'")])
      for (const id of [third, first]) {
        const cancelled = await gateway.post(customer, `/videos/${id}/cancel`, 'whatever')
        expect(await cancelled.json()).toMatchObject({ id, status: 'cancelled', cost_cents: null, completed_at: null })
        const again = await gateway.post(customer, `/videos/${id}/cancel`, {})
        expect([again.status, (await again.json()).status]).toEqual([200, 'cancelled'])
      }
      for (const id of [second, fourth]) await gateway.post(customer, `/videos/${id}/cancel`, {})
    })
  })
})

describe('content', () => {
  let id = ''
  const whole = testVideo(6)
  const fetchIt = (headers: Record<string, string> = {}, method = 'GET') =>
    fetch(`${url}/videos/${id}/content`, { method, headers: { Authorization: `Bearer ${key.key}`, ...headers } })
  beforeAll(async () => {
    id = (await (await create({ seconds: 6 })).json()).id
    await until(id, 'completed')
  })

  test('is the file, whatever the client says that it accepts', async () => {
    const answer = await fetchIt({ Accept: 'application/binary' })
    expect(answer.status).toBe(200)
    expect(answer.headers.get('Content-Length')).toBe(`${whole.byteLength}`)
    expect(answer.headers.get('Accept-Ranges')).toBe('bytes')
    expect(await answer.bytes()).toEqual(whole)
  })

  test('HEAD is the same without it', async () => {
    const [head, get] = [await fetchIt({}, 'HEAD'), await fetchIt()]
    expect(head.status).toBe(200)
    for (const name of ['Content-Length', 'Content-Type', 'ETag', 'Last-Modified', 'Accept-Ranges']) {
      expect([name, head.headers.get(name)]).toEqual([name, get.headers.get(name)])
    }
    expect((await head.bytes()).byteLength).toBe(0)
    await get.bytes()
  })

  test.each([
    ['bytes=0-3', 0, 3],
    ['bytes=4-', 4, whole.byteLength - 1],
    ['bytes=-5', whole.byteLength - 5, whole.byteLength - 1],
    ['bytes=-5000', 0, whole.byteLength - 1],
    ['bytes=2-999999', 2, whole.byteLength - 1],
  ])('a part of it: %s', async (range, first, last) => {
    const answer = await fetchIt({ Range: range })
    expect(answer.status).toBe(206)
    expect(answer.headers.get('Content-Range')).toBe(`bytes ${first}-${last}/${whole.byteLength}`)
    expect(answer.headers.get('Content-Length')).toBe(`${last - first + 1}`)
    expect(await answer.bytes()).toEqual(whole.slice(first, last + 1))
  })

  test.each(['bytes=0-1,3-4', 'bytes=x', 'lines=1-2', 'bytes=5-2', 'bytes=-'])('all of it: %s', async (range) => {
    const answer = await fetchIt({ Range: range })
    expect([answer.status, await answer.bytes()]).toEqual([200, whole])
  })

  test.each(['bytes=9999-', 'bytes=-0'])('nothing of it: %s', async (range) => {
    const answer = await fetchIt({ Range: range })
    expect(answer.status).toBe(416)
    expect(answer.headers.get('Content-Range')).toBe(`bytes */${whole.byteLength}`)
    expect((await answer.json()).error.code).toBe('range_not_satisfiable')
  })

  test('with a condition', async () => {
    const etag = (await fetchIt({}, 'HEAD')).headers.get('ETag') ?? ''
    expect((await fetchIt({ 'If-None-Match': etag })).status).toBe(304)
    expect((await fetchIt({ Range: 'bytes=0-1', 'If-Range': etag })).status).toBe(206)
    expect((await fetchIt({ Range: 'bytes=0-1', 'If-Range': '"another"' })).status).toBe(200)
  })

  test.each([
    [200, {}],
    [206, { Range: 'bytes=0-1' }],
    [416, { Range: 'bytes=9999-' }],
    [304, { 'If-None-Match': '*' }],
  ] as const)('is for one customer only: no shared cache keeps it, status %i (E18)', async (status, headers) => {
    for (const method of ['GET', 'HEAD']) {
      const answer = await fetchIt(headers, method)
      // No other method has ranges.
      const expected = method === 'HEAD' && 'Range' in headers ? 200 : status
      expect([answer.status, answer.headers.get('Cache-Control')]).toEqual([expected, 'private'])
      expect(answer.headers.get('X-Content-Type-Options')).toBe('nosniff')
      await answer.bytes()
    }
  })

  test('of another variant there is none', async () => {
    const answer = await gateway.get(key, `/videos/${id}/content?variant=thumbnail`)
    expect([answer.status, (await answer.json()).error.code]).toEqual([400, 'unsupported_parameter'])
    const same = await gateway.get(key, `/videos/${id}/content?variant=video`)
    expect([same.status, new Uint8Array(await same.arrayBuffer())]).toEqual([200, whole])
  })

  test('is gone when its time is over, although nobody has removed it yet; the cost stays', async () => {
    await gateway.database.query(`update videos set expires_at = 'epoch' where id = $1::uuid`, [id])
    const answer = await fetchIt()
    expect([answer.status, (await answer.json()).error.code]).toEqual([410, 'expired'])
    const job = await (await gateway.get(key, `/videos/${id}`)).json()
    expect(job).toMatchObject({ status: 'expired', cost_cents: 44 })
  })
})
