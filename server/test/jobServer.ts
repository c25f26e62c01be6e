/** A server of jobs that answers as a test says, and remembers what it was asked. */

export interface Asked {
  readonly method: string
  /** Path and query. */
  readonly path: string
  readonly headers: Headers
  readonly body: string
}

export interface JobServer {
  readonly url: string
  readonly asked: Asked[]
  stop(): void
}

/** Starts one on a free port of the loopback. */
export function jobServer(answer: (asked: Asked, index: number) => Response | Promise<Response>): JobServer {
  const asked: Asked[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const url = new URL(request.url)
      const { method, headers } = request
      const one: Asked = { method, path: url.pathname + url.search, headers, body: await request.text() }
      asked.push(one)
      return answer(one, asked.length - 1)
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, asked, stop: () => void server.stop(true) }
}

/** All of the pieces. */
export async function wholeOf(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const piece of pieces) parts.push(piece)
  return Buffer.concat(parts)
}
