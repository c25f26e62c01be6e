/** Large answers in one piece, through the real client and the real thread. */

import { afterAll, afterEach, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { END_OF_BODY, head, piece, type RawServer, rawServer } from '../../../test/rawServer.ts'
import { SILENCE } from '../../../test/silence.ts'
import { createHttp } from '../../infra/httpClient/client.ts'
import { ByteBudget } from '../../lib/byteBudget.ts'
import { createVectorWork } from '../vectors/work.ts'
import { openaiWhole } from './whole.ts'

const vectors = createVectorWork(SILENCE)
afterAll(() => vectors.close())
const running: RawServer[] = []
afterEach(() => {
  for (const server of running.splice(0)) server.stop()
})

const clock = new TurnedClock()
const CONNECT_MS = 5_000
const signal = new AbortController().signal
const memory = new ByteBudget(1 << 30, 0, 1 << 30).open('one')

/** Calls a server that answers with this document, in chunks of so many bytes, of which many come in one read of the socket. */
async function over(document: object, chunkBytes: number) {
  const bytes = Buffer.from(JSON.stringify(document))
  expect(bytes.byteLength).toBeGreaterThan(1 << 20)
  const chunks: Buffer[] = []
  for (let at = 0; at < bytes.byteLength; at += chunkBytes) chunks.push(piece(bytes.subarray(at, at + chunkBytes)))
  const server = await rawServer((socket) => {
    socket.write(head('200 OK', 'application/json'))
    socket.write(Buffer.concat(chunks))
    socket.write(END_OF_BODY)
  })
  running.push(server)
  return openaiWhole({ address: () => server.url, bearer: () => null, http: createHttp(clock), clock, vectors })
}

test.each([10, 100, 5_000, 70_000])('embeddings of over a MiB in chunks of %d bytes are read', async (chunkBytes) => {
  const inputs = Array.from({ length: 40 }, (_, index) => `text ${index}`)
  const numbers = Float32Array.from({ length: 2_000 }, (_, index) => Math.sin(index))
  const data = inputs.map((_, index) => ({ index, embedding: [...numbers] }))
  const call = { model: 'm', inputs, dimensions: null, user: null }
  const provider = await over({ data }, chunkBytes)
  const embedded = await provider.embed(call, signal, CONNECT_MS, memory)
  expect(embedded.dimensions).toBe(2_000)
  expect(embedded.values.subarray(-2_000)).toEqual(numbers)
})

test('images of over a MiB in small chunks are read', async () => {
  const image = Buffer.alloc(1 << 20, 'toll gate').toString('base64')
  const provider = await over({ data: [{ b64_json: image }] }, 1_000)
  const call = { model: 'm', prompt: 'a toll gate', count: 1, size: null }
  const drawn = await provider.draw(call, signal, CONNECT_MS, memory)
  expect(drawn.map((each) => Buffer.from(each).toString())).toEqual([image])
})
