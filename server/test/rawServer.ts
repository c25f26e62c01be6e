import { type AddressInfo, createServer, type Socket } from 'node:net'

/** A TCP server that says exactly what a test tells it to, byte for byte. */
export interface RawServer {
  readonly url: string
  /** Requests seen whole so far, as text. */
  readonly requests: readonly string[]
  /** Resolves when the `count`-th request is here. */
  requested(count: number): Promise<void>
  /** Resolves when the `count`-th connection is closed by the other side. */
  closed(count: number): Promise<void>
  stop(): void
}

/** Starts one on a free port of the loopback; `answer` is called with the connection of every request. */
export async function rawServer(answer: (socket: Socket, index: number) => void): Promise<RawServer> {
  const requests: string[] = []
  const sockets = new Set<Socket>()
  const waiting: (() => void)[] = []
  let closedCount = 0
  const changed = () => {
    for (const wake of waiting.splice(0)) wake()
  }
  const until = async (reached: () => boolean) => {
    while (!reached()) await new Promise<void>((resolve) => waiting.push(resolve))
  }
  const server = createServer((socket) => {
    sockets.add(socket)
    let seen = ''
    socket.on('error', () => {})
    socket.on('close', () => {
      closedCount += 1
      changed()
    })
    socket.on('data', (bytes) => {
      seen += bytes.toString('latin1')
      const headerEnd = seen.indexOf('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(seen)?.[1] ?? 0)
      if (headerEnd === -1 || seen.length < headerEnd + 4 + length) return
      requests.push(seen)
      seen = ''
      answer(socket, requests.length - 1)
      changed()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    requested: (count) => until(() => requests.length >= count),
    closed: (count) => until(() => closedCount >= count),
    stop() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

/** The head of a response with a chunked body. */
export function head(status = '200 OK', contentType = 'text/event-stream', more = ''): string {
  return `HTTP/1.1 ${status}\r\nContent-Type: ${contentType}\r\nTransfer-Encoding: chunked\r\n${more}\r\n`
}

/** One piece of a chunked body. */
export function piece(text: string | Uint8Array): Buffer {
  const bytes = Buffer.from(text as string)
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
}

/** The end of a chunked body. */
export const END_OF_BODY = '0\r\n\r\n'
