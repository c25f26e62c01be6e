import { afterAll, beforeAll, expect, test } from 'bun:test'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type HttpServer, listen } from './httpServer.ts'
import { boundSendQueues } from './sendQueue.ts'
import { tcpSocketsAt } from './tcpTable.ts'

const PIECE = 'x'.repeat(16 * 1024)
const PIECES = 512
const ANSWER_BYTES = PIECE.length * PIECES

interface Sink {
  write(text: string): number | Promise<number>
  flush(): unknown
  end(): unknown
}

let server: HttpServer
let isBound: boolean
let full: PromiseWithResolvers<void>
const clients: Socket[] = []
beforeAll(() => {
  server = listen({
    host: '127.0.0.1',
    port: 0,
    maxBodyBytes: 0,
    handle: () =>
      new Response(new ReadableStream({ type: 'direct', pull: sendAll } as unknown as UnderlyingDefaultSource)),
    onError: (error) => new Response(String(error), { status: 500 }),
  })
  isBound = boundSendQueues(server.port)
})
afterAll(async () => {
  for (const client of clients) client.destroy()
  await server.kill()
})

async function sendAll(sink: Sink): Promise<void> {
  for (let sent = 0; sent < PIECES; sent += 1) {
    const written = sink.write(PIECE)
    sink.flush()
    if (!(written instanceof Promise)) continue
    full.resolve()
    await written
  }
  sink.end()
}

/** Asks for the answer; returns when the connection takes nothing more, before anything of it was read. */
async function askAndWait(): Promise<Socket> {
  full = Promise.withResolvers()
  const client = connect(server.port, '127.0.0.1')
  clients.push(client)
  client.pause()
  client.write('GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n')
  await full.promise
  return client
}

/** Bytes in the sending queues of the server's connections. */
const unsentBytes = () => tcpSocketsAt(server.port).reduce((sum, socket) => sum + socket.unsentBytes, 0)

test.if(process.platform === 'linux')(
  'of an answer that nobody reads the kernel keeps 64 KB and a little more',
  async () => {
    expect(isBound).toBe(true)
    await askAndWait()
    expect(unsentBytes()).toBeGreaterThan(0)
    expect(unsentBytes()).toBeLessThan(192 * 1024)
  },
)

test('a client that begins to read late gets all of it', async () => {
  const client = await askAndWait()
  let bytes = 0
  client.on('data', (data) => {
    bytes += data.length
  })
  client.resume()
  await once(client, 'close')
  expect(bytes).toBeGreaterThan(ANSWER_BYTES)
})

test('a port on which this process does not listen is not bound, and says so', () => {
  expect(boundSendQueues(1)).toBe(false)
})
