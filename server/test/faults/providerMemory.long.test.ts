/** The memory of a gateway's process while providers of every kind of call send without an end. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFile, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { createServer, type Server, type Socket } from 'node:net'
import { type CallKind, callKinds, gzipBomb } from '../acceptance/providerLies.ts'
import { head, piece } from '../rawServer.ts'
import { startServer, type TestServer } from '../server.ts'

const ROUNDS = 3
/** Garbage that is collected late once is none that is kept: what has no bound is over it each time. */
const TRIES = 3
const MEGABYTE = Buffer.alloc(1 << 20, 0x78)
/** Where whole answers are bounded by 64 and 128 MiB, a call holds as much and once more while it is put together. */
const MOST_MEGABYTES = { chat: 100, embedding: 150, image: 300 } as const

const KINDS = callKinds('').filter(({ name }) => name !== 'sdcpp images')
let provider: Server
let answer: (socket: Socket) => void = () => {}
let server: TestServer

beforeAll(async () => {
  provider = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => answer(socket))
  })
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`
  const dialects = new Map(KINDS.map(({ dialect, basePath }) => [dialect, basePath]))
  const models = new Map(KINDS.map((kind) => [idOf(kind), modelOf(kind)]))
  server = await startServer({
    settings: [
      'providers:',
      ...[...dialects].map(([dialect, path]) => `  ${dialect}: { dialect: ${dialect}, base_url: "${url}${path}" }`),
      'models:',
      ...models.values(),
      '',
    ].join('\n'),
  })
}, 120_000)
afterAll(async () => {
  await server.remove()
  provider.close()
}, 60_000)

const idOf = (kind: CallKind) => `svc/${kind.dialect}-${kind.modality}`

function modelOf(kind: CallKind): string {
  const price = {
    chat: 'input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1',
    embedding: 'input_per_1m_tokens_cents: 1',
    image: 'per_image_cents: 1',
  }[kind.modality]
  const context = {
    chat: 'context_length: 4096, max_output_tokens: 64, ',
    embedding: 'context_length: 4096, ',
    image: '',
  }[kind.modality]
  return `  - { id: ${idOf(kind)}, modality: ${kind.modality}, ${context}pricing: { ${price} }, targets: [{ provider: ${kind.dialect}, model: x }] }`
}

/** As much as the gateway takes. */
function endless(start: string | Buffer, unit: Buffer) {
  return (socket: Socket) => {
    socket.write(start)
    const fill = () => {
      while (!socket.destroyed && socket.write(unit));
    }
    socket.on('drain', fill)
    fill()
  }
}

type Says = (kind: CallKind) => (socket: Socket) => void
const line: Says = ({ contentType }) =>
  endless(head('200 OK', contentType), piece(Buffer.concat([Buffer.from('data: '), MEGABYTE])))
const lines: Says = ({ contentType }) =>
  endless(head('200 OK', contentType), piece(Buffer.concat([Buffer.from('data: '), MEGABYTE, Buffer.from('\n')])))
const spaces: Says = ({ contentType }) => endless(head('200 OK', contentType), piece(Buffer.alloc(1 << 20, 0x20)))
const headers: Says = () => endless('HTTP/1.1 200 OK\r\n', Buffer.from(`X: ${'x'.repeat(1_000)}\r\n`))
const refusal: Says = ({ contentType }) => endless(head('400 No', contentType), piece(MEGABYTE))
const bomb: Says = (kind) => (socket) => void socket.end(gzipBomb(kind))
const rows: [string, Says][] = [
  ['a line', line],
  ['lines of one event', lines],
  ['white space', spaces],
  ['headers', headers],
  ['the body of a refusal', refusal],
  ['a gzip bomb', bomb],
]

/** The most that the process has had in memory since this was asked last. */
async function peakMegabytes(): Promise<number> {
  const folder = `/proc/${server.process.pid}`
  const status = await readFile(`${folder}/status`, 'utf8')
  await writeFile(`${folder}/clear_refs`, '5')
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) / 1_024
}

async function ask(kind: CallKind): Promise<number> {
  const response = await fetch(`${server.url}${kind.path}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${server.firstKey}` },
    body: JSON.stringify({ ...kind.request, model: idOf(kind) }),
  })
  const text = await response.text()
  expect(text.length).toBeLessThan(2_000)
  return response.status
}

for (const kind of KINDS) {
  test.each(rows)(
    `${kind.name}: %s without an end`,
    async (name, says) => {
      answer = says(kind)
      let more = Number.POSITIVE_INFINITY
      for (let tried = 0; tried < TRIES && more >= MOST_MEGABYTES[kind.modality]; tried += 1) {
        await peakMegabytes()
        const before = await peakMegabytes()
        const statuses = new Set<number>()
        for (let round = 0; round < ROUNDS; round += 1) statuses.add(await ask(kind))
        const peak = await peakMegabytes()
        more = peak - before
        console.log(
          `${kind.name}, ${name}: ${[...statuses]}, ${before.toFixed(0)} MB before, at most ${peak.toFixed(0)} MB`,
        )
        expect([...statuses].every((status) => [400, 502, 503, 504].includes(status))).toBe(true)
      }
      expect(more).toBeLessThan(MOST_MEGABYTES[kind.modality])
    },
    120_000,
  )
}
