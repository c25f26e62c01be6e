/** A client that never reads its whole answer, which is made and charged: how long it keeps memory and a connection. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { type OpenPort, openPort } from '../openPort.ts'
import { END_OF_BODY, head, piece, type RawServer, rawServer } from '../rawServer.ts'
import { postUnread } from '../unreadRequest.ts'

/** More than kernels take for a client that does not read. */
const ANSWER_BYTES = 24_000_000
/** As many as are believed of so many bytes. */
const ANSWER_TOKENS = 3_000_000
const PART_BYTES = 60_000
const LIMIT_MS = 150_000

let provider: RawServer
let port: OpenPort
beforeAll(async () => {
  const part = (content: string, reason: string | null) =>
    piece(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: reason }] })}\n\n`)
  const usage = JSON.stringify({ choices: [], usage: { prompt_tokens: 1, completion_tokens: ANSWER_TOKENS } })
  provider = await rawServer((socket) => {
    socket.write(head())
    for (let sent = 0; sent < ANSWER_BYTES; sent += PART_BYTES) socket.write(part('x'.repeat(PART_BYTES), null))
    socket.write(part('', 'stop'))
    socket.write(piece(`data: ${usage}\n\ndata: [DONE]\n\n`))
    socket.end(END_OF_BODY)
  })
  port = await openPort(`${provider.url}/v1`)
}, LIMIT_MS)
afterAll(async () => {
  await port.close()
  provider.stop()
}, LIMIT_MS)

/** Asks for a whole answer and reads nothing until it is told to. */
function ask(key: string): Socket {
  return postUnread({ port: port.port, key }, '/chat/completions', {
    model: 'svc/stepped',
    messages: [{ role: 'user', content: 'Go on' }],
  })
}

/** Bytes until the connection ends, at most so many at once and then a pause. */
function readAll(socket: Socket, pauseMs: number): Promise<number> {
  let bytes = 0
  socket.on('data', (data) => {
    bytes += data.length
    if (pauseMs === 0) return
    socket.pause()
    setTimeout(() => socket.resume(), pauseMs)
  })
  socket.resume()
  return new Promise((resolve) => socket.once('close', () => resolve(bytes)))
}

test(
  'who reads nothing of an answer for a minute is cut off; who reads slowly gets all of it',
  async () => {
    const [still, slow] = [await port.gateway.customer({ cents: 1e12 }), await port.gateway.customer({ cents: 1e12 })]
    const startedMs = performance.now()
    const stalled = ask(still.key)
    // Over 80 s for the whole: longer than the limit on taking nothing.
    const read = readAll(ask(slow.key), 210)
    while ((await port.charges(still)).length === 0) await new Promise((resolve) => setTimeout(resolve, 100))
    await port.hungUp(1)
    const elapsedMs = performance.now() - startedMs
    console.log(`cut off after ${Math.round(elapsedMs / 1_000)} s`)
    expect(elapsedMs).toBeGreaterThan(55_000)
    expect(elapsedMs).toBeLessThan(80_000)
    // The kernels had taken less than the whole answer.
    expect(await readAll(stalled, 0)).toBeLessThan(ANSWER_BYTES)
    expect(await port.charges(still)).toMatchObject([
      { outcome: 'completed', completionTokens: ANSWER_TOKENS, estimated: false },
    ])
    expect(await read).toBeGreaterThan(ANSWER_BYTES)
  },
  LIMIT_MS,
)
