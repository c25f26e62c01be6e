/** A customer's server for webhooks: notes what it is sent, and answers as a test tells it to. */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Received {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly atMs: number
}

export interface Receiver {
  readonly url: string
  readonly port: number
  readonly received: readonly Received[]
  /** Resolves with what came, once it is so much. */
  until(count: number): Promise<readonly Received[]>
  stop(): void
}

export type AnswerWith = (response: ServerResponse, received: Received, index: number) => void

/** Starts one on the loopback; without `answer` it answers 204 to everything. */
export async function startReceiver(
  answer: AnswerWith = (response) => response.writeHead(204).end(),
): Promise<Receiver> {
  const received: Received[] = []
  const waiting: (() => void)[] = []
  const server = createServer((request: IncomingMessage, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', () => {
      const headers = request.headers as Record<string, string>
      const one = { path: request.url ?? '', headers, body: Buffer.concat(pieces).toString(), atMs: Date.now() }
      received.push(one)
      answer(response, one, received.length - 1)
      for (const wake of waiting.splice(0)) wake()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    received,
    async until(count) {
      while (received.length < count) await new Promise<void>((resolve) => waiting.push(resolve))
      return received
    },
    stop() {
      server.closeAllConnections()
      server.close()
    },
  }
}
