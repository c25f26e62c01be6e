/**
 * No charge is above what was held for its call, whatever a customer sends and a provider reports (C10), and no report far
 * below the text is believed (C4): real calls over every dialect and modality, real PostgreSQL, a provider that lies.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { encodeClip } from '../../src/providers/sandbox/clip.ts'
import { FRAMES_PER_SECOND } from '../../src/providers/sandbox/frames.ts'
import { drawText } from '../../src/providers/sandbox/picture.ts'
import type { TestKey } from '../customer.ts'
import { fc } from '../properties.ts'
import { piece, type RawServer, rawServer } from '../rawServer.ts'
import { until } from '../until.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { streamOf } from './otherApis.ts'
import { type CallKind, callKinds, respond } from './providerLies.ts'

const CONTEXT_TOKENS = 4_096
const MICROCENTS_PER_CENT = 1_000_000n
const IMAGE_CENTS = 3n
const picture = (await drawText(['x'], { width: 64, height: 64 }, 1)).toString('base64')
const KINDS = callKinds(picture)
const VIDEO_CENTS_PER_SECOND = 7n
const VIDEO_SECONDS_MOST = 6

let provider: RawServer
let answer: (socket: Socket) => void = () => {}
let gateway: AskedGateway

/** Tokens of chat and embeddings cost a micro-cent each, in `svc/dear` a thousandth of a cent. */
const PRICES: Readonly<Record<CallKind['modality'], string>> = {
  chat: 'input_per_1m_tokens_microcents: 1000000, output_per_1m_tokens_microcents: 1000000',
  embedding: 'input_per_1m_tokens_microcents: 1000000000',
  image: `per_image_cents: ${IMAGE_CENTS}`,
}
const idOf = (kind: CallKind) => `svc/${kind.dialect}-${kind.modality}`

beforeAll(async () => {
  provider = await rawServer((socket) => answer(socket))
  const providers = new Map<string, string>()
  const models = new Map<string, string>()
  for (const kind of KINDS) {
    const { dialect, modality, basePath } = kind
    providers.set(dialect, `  ${dialect}: { dialect: ${dialect}, base_url: "${provider.url}${basePath}" }`)
    const context = modality === 'image' ? '' : `context_length: ${CONTEXT_TOKENS}, `
    const output = modality === 'chat' ? 'max_output_tokens: 2048, ' : ''
    const rest = `pricing: { ${PRICES[modality]} }, targets: [{ provider: ${dialect}, model: theirs }]`
    models.set(idOf(kind), `  - { id: ${idOf(kind)}, modality: ${modality}, ${context}${output}${rest} }`)
  }
  const dear = 'input_per_1m_tokens_microcents: 1000000000, output_per_1m_tokens_microcents: 1000000000'
  const model = `  - { id: svc/dear, context_length: ${CONTEXT_TOKENS}, max_output_tokens: 2048, pricing: { ${dear} }, targets: [{ provider: openai, model: theirs }] }`
  const film = `  - { id: svc/film, modality: video, pricing: { per_video_second_cents: ${VIDEO_CENTS_PER_SECOND} }, parameters: [{ name: seconds, type: int, min: 1, max: ${VIDEO_SECONDS_MOST}, default: 2 }], targets: [{ provider: openai, model: theirs }] }`
  const settings = ['providers:', ...providers.values(), 'models:', ...models.values(), model, film, ''].join('\n')
  gateway = await openAskedGateway({ settings })
}, 60_000)
afterAll(async () => {
  await gateway.close()
  provider.stop()
})

interface Charged {
  readonly cost: bigint
  readonly prompt: bigint
  readonly cached: bigint
  readonly completion: bigint
  readonly images: bigint | null
  readonly estimated: boolean
}

const chargesOf = (key: TestKey) =>
  gateway.database.query<Charged>(
    `select cost_microcents as cost, prompt_tokens as prompt, cached_prompt_tokens as cached,
       completion_tokens as completion, image_count as images, estimated
     from named_charges where organization_id = $1::uuid order by id`,
    [key.organizationId],
  )

async function balanceOf(key: TestKey): Promise<number> {
  const answered = await gateway.ask({ path: '/billing/balance', key })
  return (answered.json as { readonly balance_cents: number }).balance_cents
}

/** Answers every call with these events of OpenAI's form. */
function says(...events: readonly object[]): void {
  const parts = [...events.map((event) => JSON.stringify(event)), '[DONE]'].map((data) => piece(`data: ${data}\n\n`))
  answer = (socket) => void socket.end(streamOf(...parts))
}

const words = (count: number) => ({ choices: [{ delta: { content: 'word '.repeat(count) } }] })
const STOP = { choices: [{ delta: {}, finish_reason: 'stop' }] }
const usage = (prompt: number, completion: number) => ({
  choices: [],
  usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
})

const dear = (key: TestKey, content: string, more: object = {}) =>
  gateway.ask({
    path: '/chat/completions',
    key,
    body: { model: 'svc/dear', messages: [{ role: 'user', content }], max_tokens: 16, ...more },
  })

describe('a prompt larger than the context, and a provider that reports nothing', () => {
  test('is refused before the provider is asked when no tokenizer fits it into the context', async () => {
    const key = await gateway.customer({ cents: 10 })
    says(words(2), STOP)
    const asked = provider.requests.length
    const refused = await dear(key, 'x'.repeat(CONTEXT_TOKENS * 64 + 1))
    expect(refused.status).toBe(400)
    expect(refused.json).toMatchObject({ error: { code: 'context_length_exceeded', param: 'messages' } })
    expect(provider.requests.length).toBe(asked)
    expect(await chargesOf(key)).toEqual([])
  })

  test('costs no more than the context, and many at once no more than the balance', async () => {
    // The context costs 4.1 cents; the text has ten times as many tokens.
    const key = await gateway.customer({ cents: 10 })
    says(words(2), STOP)
    const texts = Array.from({ length: 28 }, (_, index) => `${index} ${'some words '.repeat(20_000)}`)
    const answers = await Promise.all(texts.map((text) => dear(key, text)))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 402]))
    const charges = await chargesOf(key)
    expect(charges.length).toBe(2)
    for (const { cost, prompt, completion, estimated } of charges) {
      expect(cost).toBeLessThanOrEqual(BigInt(CONTEXT_TOKENS) * 1_000n)
      expect(prompt + completion).toBeLessThanOrEqual(BigInt(CONTEXT_TOKENS))
      expect(estimated).toBe(true)
    }
    expect(await balanceOf(key)).toBeGreaterThanOrEqual(0)
  })
})

test('more tokens than a prompt has bytes, more output than was asked for, more of both than the context: nobody pays', async () => {
  const key = await gateway.customer({ cents: 100 })
  says(words(2), STOP, usage(CONTEXT_TOKENS, CONTEXT_TOKENS))
  await dear(key, '0123456789')
  const [charge] = await chargesOf(key)
  // Ten bytes, and what a template may put around one message.
  expect(charge).toMatchObject({ prompt: 90n, completion: 16n, estimated: false })
  const other = await gateway.customer({ cents: 100 })
  says(words(2), STOP, usage(4_000, 2_000))
  await dear(other, 'x'.repeat(4_000), { max_tokens: 2_000 })
  expect(await chargesOf(other)).toMatchObject([{ prompt: 4_000n, completion: 96n }])
})

describe('a provider that does not heed max_tokens', () => {
  const many = (count: number, each: number) => Array.from({ length: count }, () => words(each))
  // One token a piece; many in one; all in one.
  test.each([
    [4_000, 1],
    [40, 100],
    [1, 4_000],
  ])('is stopped where its answer is past the limit: %d pieces of %d words', async (pieces, each) => {
    for (const stream of [false, true]) {
      const key = await gateway.customer({ cents: 100 })
      says(...many(pieces, each), STOP, usage(10, pieces * each))
      const answered = await dear(key, 'Hello.', { max_tokens: 16, stream })
      expect(answered.status).toBe(200)
      expect(answered.text).toContain('"finish_reason":"length"')
      expect(answered.text.split('word').length).toBeLessThan(500)
      const [charge] = await chargesOf(key)
      expect(Number(charge?.completion)).toBeLessThanOrEqual(16)
    }
  })
})

test('a first piece that costs more than is left is answered and charged as far as the money goes, and not made again', async () => {
  // A cent is 1,000 tokens.
  const key = await gateway.customer({ cents: 1 })
  says(words(1_500), STOP, usage(10, 1_500))
  const first = await dear(key, 'Hello.', { max_tokens: 2_000 })
  expect(first.status).toBe(200)
  expect(first.text).toContain('"finish_reason":"length"')
  const [charge] = await chargesOf(key)
  expect(charge?.cost).toBeGreaterThan(MICROCENTS_PER_CENT / 2n)
  expect(charge?.cost).toBeLessThanOrEqual(MICROCENTS_PER_CENT)
  const asked = provider.requests.length
  expect((await dear(key, 'Hello.', { max_tokens: 2_000 })).status).toBe(402)
  expect(provider.requests.length).toBe(asked)
})

describe('a report that claims too little', () => {
  const TEXT_TOKENS = 500
  const reports: [string, number, number][] = [
    ['zero of everything', 0, 0],
    ['one token for all', 1, 1],
    ['a tenth', 50, 50],
  ]
  test.each(reports)('%s: the count is charged', async (_, prompt, completion) => {
    for (const stream of [false, true]) {
      const key = await gateway.customer({ cents: 100 })
      says(words(TEXT_TOKENS), STOP, usage(prompt, completion))
      const answered = await dear(key, 'word '.repeat(TEXT_TOKENS), { max_tokens: 1_000, stream })
      expect(answered.status).toBe(200)
      const [charge] = await chargesOf(key)
      expect(charge?.estimated).toBe(true)
      expect(Number(charge?.prompt)).toBeGreaterThanOrEqual(TEXT_TOKENS)
      expect(Number(charge?.completion)).toBeGreaterThanOrEqual(TEXT_TOKENS)
    }
  })

  test('half of the count and more is believed', async () => {
    const key = await gateway.customer({ cents: 100 })
    says(words(TEXT_TOKENS), STOP, usage(300, 300))
    await dear(key, 'word '.repeat(TEXT_TOKENS), { max_tokens: 1_000 })
    expect(await chargesOf(key)).toMatchObject([{ prompt: 300n, completion: 300n, estimated: false }])
  })
})

/** The most that a call may be charged for, computed from the request alone. */
function mostOf(kind: CallKind, content: string, maxTokens: number, count: number): bigint {
  const prompt = Math.min(Buffer.byteLength(content) + 80, CONTEXT_TOKENS)
  if (kind.modality === 'image') return BigInt(count) * IMAGE_CENTS * MICROCENTS_PER_CENT
  if (kind.modality === 'chat') return BigInt(prompt) + BigInt(Math.min(maxTokens, CONTEXT_TOKENS))
  const exact = BigInt(prompt) * 1_000n
  return ((exact + MICROCENTS_PER_CENT - 1n) / MICROCENTS_PER_CENT) * MICROCENTS_PER_CENT
}

const claim = fc.oneof(fc.constantFrom(0, 1, CONTEXT_TOKENS, CONTEXT_TOKENS + 1, 1e9), fc.nat(10_000))

test('a charge is never above what its request can come to, whatever is reported, in every dialect and modality', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...KINDS),
      fc.string({ minLength: 1, maxLength: 400, unit: 'grapheme' }),
      fc.integer({ min: 1, max: 2_048 }),
      fc.record({ prompt: claim, completion: claim }),
      fc.string({ minLength: 1, maxLength: 2_000 }),
      async (kind, content, maxTokens, claimed, said) => {
        const key = await gateway.customer({ cents: 50 })
        answer = (socket) => void socket.end(respond(kind, kind.good(claimed, said)))
        const count = 1 + (maxTokens % 3)
        const request = {
          chat: { messages: [{ role: 'user', content }], max_tokens: maxTokens },
          embedding: { input: content },
          image: { prompt: content, n: count },
        }[kind.modality]
        const body = { ...kind.request, ...request, model: idOf(kind) }
        await gateway.ask({ path: kind.path, key, body })
        const charges = await chargesOf(key)
        expect(charges.length).toBeLessThanOrEqual(1)
        for (const { cost } of charges) expect(cost).toBeLessThanOrEqual(mostOf(kind, content, maxTokens, count))
        expect(await balanceOf(key)).toBeGreaterThanOrEqual(0)
      },
    ),
    { numRuns: 150 },
  )
})

describe('a video', () => {
  const lie = fc.constantFrom<unknown>(undefined, null, 0, -1, 1, 1e9, '60', 'many', 2 ** 53, {})
  const size = fc.constantFrom<unknown>(undefined, '1x1', '99999x99999', 0, [])

  /** Returns the clips of a job by their lengths in seconds. */
  const clips = new Map<number, Uint8Array>()
  beforeAll(async () => {
    for (const seconds of [0.2, 2, 9]) {
      const frames = Math.round(seconds * FRAMES_PER_SECOND)
      clips.set(seconds, await encodeClip({ lines: [], size: { width: 64, height: 64 }, frames, seed: 1 }))
    }
  })

  /** Answers as a server of OpenAI's form whose job is done at once. */
  function sends(clip: Uint8Array, said: object): void {
    const whole = (type: string, body: Uint8Array | string) =>
      Buffer.concat([
        Buffer.from(`HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`),
        Buffer.from(body as string),
      ])
    answer = (socket) => {
      const isFile = provider.requests.at(-1)?.includes('/content ') === true
      const job = JSON.stringify({ id: 'video_1', object: 'video', status: 'completed', progress: 100, ...said })
      socket.write(isFile ? whole('video/mp4', clip) : whole('application/json', job))
    }
  }

  test('costs the seconds of its file, at most those that were held, whatever length, size and cost are reported', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: VIDEO_SECONDS_MOST }),
        fc.constantFrom(...clips.keys()),
        fc.record({ seconds: lie, duration: lie, progress: lie, cost_cents: lie, size }),
        async (seconds, clipSeconds, said) => {
          sends(clips.get(clipSeconds) ?? new Uint8Array(), said)
          const key = await gateway.customer({ cents: 42 })
          const made = await gateway.ask({ path: '/videos', key, body: { model: 'svc/film', prompt: 'x', seconds } })
          expect(made.status).toBe(202)
          const { id } = made.json as { readonly id: string }
          const path = `/videos/${id}`
          let job: unknown
          await until(async () => {
            job = (await gateway.ask({ path, key })).json
            return !/queued|in_progress/.test((job as { readonly status: string }).status)
          })
          const billed = BigInt(Math.min(Math.max(Math.round(clipSeconds), 1), seconds))
          expect(job).toMatchObject({ status: 'completed', seconds: Number(billed) })
          expect((await chargesOf(key)).map(({ cost }) => cost)).toEqual([
            billed * VIDEO_CENTS_PER_SECOND * MICROCENTS_PER_CENT,
          ])
          expect(await balanceOf(key)).toBe(42 - Number(billed * VIDEO_CENTS_PER_SECOND))
        },
      ),
      { numRuns: 12 },
    )
  })
})
