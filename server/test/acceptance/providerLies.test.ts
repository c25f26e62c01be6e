/**
 * Any fault of a provider in a call of any kind, in any dialect: the documented status and code, the right charge,
 * and none of its words. The breaker is as it comes: a target that has no other beside it is asked however often it
 * failed. `faults/providerMemory.long.test.ts` measures the memory that it takes.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { drawText } from '../../src/providers/sandbox/picture.ts'
import type { TestKey } from '../customer.ts'
import { head, piece, type RawServer, rawServer } from '../rawServer.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import type { Answer } from './description.ts'
import { lastHead } from './otherApis.ts'
import { type CallKind, callKinds, gzipBomb, respond, withBadBytes } from './providerLies.ts'
import { type Expected, expectErrorEvent, expectRefusal } from './refusals.ts'

const CANARY = 'canary-77e1'
/** Cents; tokens of a chat cost a micro-cent each, so that a charge says how many they were. */
const IMAGE_CENTS = 3
const picture = (await drawText(['x'], { width: 64, height: 64 }, 1)).toString('base64')
const KINDS = callKinds(picture)

let provider: RawServer
let answer: (socket: Socket) => void = () => {}
let gateway: AskedGateway
/** With short deadlines, for what keeps silent; all else has time on a machine under load. */
let hasty: AskedGateway

const PRICES: Readonly<Record<CallKind['modality'], string>> = {
  chat: 'input_per_1m_tokens_microcents: 1000000, output_per_1m_tokens_microcents: 1000000',
  embedding: 'input_per_1m_tokens_microcents: 1000000',
  image: `per_image_cents: ${IMAGE_CENTS}`,
}
const idOf = (kind: CallKind) => `svc/${kind.dialect}-${kind.modality}`
const contextOf = ({ modality }: CallKind) =>
  modality === 'image' ? '' : `context_length: 4096, ${modality === 'chat' ? 'max_output_tokens: 64, ' : ''}`

beforeAll(async () => {
  provider = await rawServer((socket) => answer(socket))
  const providers = new Map<string, string>()
  const models = new Map<string, string>()
  for (const kind of KINDS) {
    providers.set(
      kind.dialect,
      `  ${kind.dialect}: { dialect: ${kind.dialect}, base_url: "${provider.url}${kind.basePath}" }`,
    )
    providers.set(
      `no ${kind.dialect}`,
      `  no-${kind.dialect}: { dialect: ${kind.dialect}, base_url: "http://127.0.0.1:1${kind.basePath}" }`,
    )
    for (const away of [false, true]) {
      const id = `${idOf(kind)}${away ? '-away' : ''}`
      models.set(
        id,
        `  - { id: ${id}, modality: ${kind.modality}, ${contextOf(kind)}pricing: { ${PRICES[kind.modality]} }, ` +
          `targets: [{ provider: ${away ? 'no-' : ''}${kind.dialect}, model: theirs }] }`,
      )
    }
  }
  const settings = ['providers:', ...providers.values(), 'models:', ...models.values(), ''].join('\n')
  gateway = await openAskedGateway({ settings })
  const deadlines = 'first_byte_seconds: 0.3, silence_seconds: 0.3, whole_seconds: 0.3'
  hasty = await openAskedGateway({ settings: `${settings}deadlines: { ${deadlines} }\n`, beside: gateway })
}, 60_000)
afterAll(async () => {
  await hasty.close()
  await gateway.close()
  provider.stop()
})

interface Charged {
  readonly cost: bigint
  readonly prompt: bigint
  readonly completion: bigint
  readonly estimated: boolean
  readonly outcome: string
}

async function call(kind: CallKind, { at = gateway, away = false } = {}): Promise<{ got: Answer; charges: Charged[] }> {
  const key: TestKey = await gateway.customer()
  const body = { ...kind.request, model: `${idOf(kind)}${away ? '-away' : ''}` }
  const got = await at.ask({ path: kind.path, key, body })
  expect(got.text).not.toContain(CANARY)
  const charges = await gateway.database.query<Charged>(
    `select cost_microcents as cost, prompt_tokens as prompt, completion_tokens as completion, estimated, outcome
     from named_charges where organization_id = $1::uuid`,
    [key.organizationId],
  )
  return { got, charges }
}

const unavailable: Expected = { status: 503, code: 'upstream_unavailable', retryAfter: 1 }
const timeout: Expected = { status: 504, code: 'upstream_timeout' }
const faulty: Expected = { status: 502, code: 'upstream_error', says: /faulty answer/ }
const tooLarge: Expected = { status: 502, code: 'upstream_response_too_large' }

const send =
  (...parts: readonly (string | Buffer)[]) =>
  (socket: Socket) =>
    void socket.end(Buffer.concat(parts.map((part) => Buffer.from(part))))

type Says = (kind: CallKind) => (socket: Socket) => void
const refusals: [name: string, says: Says, Expected | ((kind: CallKind) => Expected)][] = [
  ['hangs up', () => (socket) => void socket.destroy(), unavailable],
  ['stalls', () => () => {}, timeout],
  [
    'stalls after its headers',
    ({ contentType }) =>
      (socket) =>
        void socket.write(head('200 OK', contentType)),
    timeout,
  ],
  [
    'answers 429',
    () =>
      send(
        `HTTP/1.1 429 ${CANARY}\r\nRetry-After: 9\r\nContent-Length: ${CANARY.length}\r\nConnection: close\r\n\r\n${CANARY}`,
      ),
    { ...unavailable, retryAfter: 9 },
  ],
  ['sends HTML', () => send(lastHead('text/html'), piece(`<h1>${CANARY}</h1>`), '0\r\n\r\n'), faulty],
  ['sends HTML as what was asked for', (kind) => send(respond(kind, [piece(`<h1>${CANARY}</h1>`)])), faulty],
  ['sends a gzip bomb', (kind) => send(gzipBomb(kind)), faulty],
  ['sends a gzip bomb with 500', (kind) => send(gzipBomb(kind, '500 X')), unavailable],
  [
    'announces a terabyte',
    ({ contentType }) =>
      send(`HTTP/1.1 200 OK\r\nContent-Type: ${contentType}\r\nContent-Length: 1000000000000\r\n\r\n{`),
    // Of a stream the length says nothing; it breaks off.
    ({ modality }) => (modality === 'chat' ? unavailable : tooLarge),
  ],
  ['sends bytes that are no UTF-8', (kind) => send(respond(kind, [withBadBytes(piece('data: ?\n\n'))])), faulty],
]

for (const kind of KINDS) {
  describe(kind.name, () => {
    test('a provider that is not there: 503, free', async () => {
      const { got, charges } = await call(kind, { away: true })
      expectRefusal(got, 'B', unavailable)
      expect(charges).toEqual([])
    })

    test.each(refusals)('one that %s is refused in our words, and free', async (...[, says, expected]) => {
      answer = says(kind)
      const wanted = typeof expected === 'function' ? expected(kind) : expected
      const { got, charges } = await call(kind, { at: wanted === timeout ? hasty : gateway })
      expectRefusal(got, 'B', wanted)
      expect(charges).toEqual([])
    })

    test.each([
      ['ends', '0\r\n\r\n'],
      ['breaks off', ''],
    ])('one that %s after half of its answer', async (_name, end) => {
      // Of a chat what came has text in it.
      const half = kind.modality === 'chat' ? 2 : 1
      const parts = kind.dialect === 'openai' && kind.modality === 'chat' ? 1 : half
      answer = send(lastHead(kind.contentType), ...kind.good().slice(0, parts), end)
      const { got, charges } = await call(kind)
      if (!kind.isStream) {
        expectRefusal(got, 'B', faulty)
        expect(charges).toEqual([])
        return
      }
      expectErrorEvent(got, got.events.length - 2, faulty)
      expect(got.text).toContain('"content":"Good day."')
      // The text that came is charged, by a count of ours.
      expect(charges).toMatchObject([{ outcome: 'interrupted', estimated: true }])
      expect(Number(charges[0]?.completion)).toBeWithin(1, 6)
    })

    const claims: [string, number][] = [
      ['no', 0],
      ['negative', -7],
      ['absurd', 1e15],
      ['absurd and yet a count', 900_000_000],
      ['fractional', 2.5],
    ]
    test.each(claims)('one that claims %s usage is charged what was delivered', async (_name, claimed) => {
      answer = send(respond(kind, kind.good({ prompt: claimed, completion: claimed })))
      const { got, charges } = await call(kind)
      expect([got.status, got.text.includes('"error"')]).toEqual([200, false])
      expect(charges).toMatchObject([{ outcome: 'completed', estimated: kind.modality !== 'image' }])
      const { cost = 0n, prompt = 0n, completion = 0n } = charges[0] ?? {}
      if (kind.modality === 'image') expect(cost).toBe(BigInt(IMAGE_CENTS) * 1_000_000n)
      if (kind.modality === 'embedding') expect([cost, prompt < 10n]).toEqual([1_000_000n, true])
      if (kind.modality !== 'chat') return
      expect(cost).toBe(prompt + completion)
      expect([prompt > 0n && prompt < 30n, completion > 0n && completion < 6n]).toEqual([true, true])
    })

    test('one that claims more than the request can come to is charged no more than that', async () => {
      answer = send(respond(kind, kind.good({ prompt: 4_000, completion: 4_000 })))
      const { got, charges } = await call(kind)
      expect(got.status).toBe(200)
      const most = {
        // Six bytes and what a template may put around them; what was asked for.
        chat: { prompt: 6n + 64n + 16n, completion: 16n, estimated: false },
        // That is no count of these tokens: they are counted here.
        embedding: { prompt: 2n, cost: 1_000_000n, estimated: true },
        image: { cost: BigInt(IMAGE_CENTS) * 1_000_000n },
      }
      expect(charges).toMatchObject([{ outcome: 'completed', ...most[kind.modality] }])
    })

    test('one that tells the truth is charged that', async () => {
      answer = send(respond(kind, kind.good()))
      const { got, charges } = await call(kind)
      expect(got.status).toBe(200)
      expect(charges).toMatchObject([{ outcome: 'completed', estimated: false }])
    })

    if (kind.modality !== 'chat') return
    test('an endless line is faulty, and free', async () => {
      const megabyte = piece(`data: ${'x'.repeat(1 << 20)}`)
      answer = send(lastHead(kind.contentType), ...new Array<Buffer>(6).fill(megabyte))
      const { got, charges } = await call(kind)
      expectRefusal(got, 'B', faulty)
      expect(charges).toEqual([])
    })

    test('bytes that are no UTF-8 in its words become U+FFFD', async () => {
      answer = send(withBadBytes(respond(kind, kind.good(undefined, 'a?b'))))
      const { got, charges } = await call(kind)
      expect([got.status, got.text.includes('"content":"a\ufffdb"'), charges.length]).toEqual([200, true, 1])
    })
  })
}

test('no log line holds what a provider wrote', () => {
  expect([...gateway.logs, ...hasty.logs].filter((line) => line.includes(CANARY))).toEqual([])
})
