import { afterAll, beforeAll, expect, test } from 'bun:test'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type HttpServer, listen } from './httpServer.ts'
import { boundSocketQueues } from './socketQueues.ts'
import { tcpSocketsAt } from './tcpTable.ts'

const PIECE = 'x'.repeat(16 * 1024)
const PIECES = 512
const ANSWER_BYTES = PIECE.length * PIECES
const BODY_BYTES = 16 << 20

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
    maxBodyBytes: BODY_BYTES,
    handle: async (request) =>
      request.method === 'POST'
        ? new Response(String((await request.arrayBuffer()).byteLength))
        : new Response(new ReadableStream({ type: 'direct', pull: sendAll } as unknown as UnderlyingDefaultSource)),
    onError: (error) => new Response(String(error), { status: 500 }),
  })
  isBound = boundSocketQueues(server.port)
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

test.if(process.platform === 'linux')(
  'of a body that has come and is not read the kernel keeps 256 KB at most, also where much was read before',
  async () => {
    const client = connect(server.port, '127.0.0.1')
    clients.push(client)
    await once(client, 'connect')
    const head = `POST / HTTP/1.1\r\nHost: here\r\nContent-Length: ${BODY_BYTES}\r\n\r\n`
    // The kernel gives more memory to a connection that was read fast.
    for (let body = 0; body < 3; body += 1) {
      client.write(head)
      client.write(Buffer.alloc(BODY_BYTES))
      expect(String((await once(client, 'data'))[0])).toContain(`\r\n\r\n${BODY_BYTES}`)
    }
    client.write(head)
    client.write(Buffer.alloc(BODY_BYTES))
    // Nothing of it is read before this turn of the event loop ends.
    const unread = Math.max(...tcpSocketsAt(server.port).map(({ unreadBytes }) => unreadBytes))
    expect(unread).toBeGreaterThan(0)
    expect(unread).toBeLessThanOrEqual(256 * 1024)
    expect(String((await once(client, 'data'))[0])).toContain(`\r\n\r\n${BODY_BYTES}`)
  },
)

test('a port on which this process does not listen is not bound, and says so', () => {
  expect(boundSocketQueues(1)).toBe(false)
})
