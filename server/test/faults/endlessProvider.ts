/** A provider of the dialect `openai` whose answers never end and come as fast as they are taken. */

import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import { head, piece } from '../rawServer.ts'

export interface EndlessProvider {
  /** Ends in /v1. */
  readonly url: string
  /** Connections that are being answered now. */
  readonly open: number
  /** Handed to the operating system so far, over all connections; stands still while nobody takes anything. */
  readonly writtenBytes: number
  /** Resolves when no connection is open any more. */
  abandoned(): Promise<void>
  stop(): void
}

const CHUNK = piece(
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: ' word'.repeat(40) }, finish_reason: null }] })}\n\n`,
)

export async function startEndlessProvider(): Promise<EndlessProvider> {
  const sockets = new Set<Socket>()
  let leftBytes = 0
  let waiting: (() => void)[] = []
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => {
      sockets.add(socket)
      socket.write(head())
      const fill = () => {
        while (!socket.destroyed && socket.write(CHUNK));
      }
      socket.on('drain', fill)
      fill()
    })
    socket.on('close', () => {
      leftBytes += socket.bytesWritten
      sockets.delete(socket)
      if (sockets.size > 0) return
      for (const wake of waiting) wake()
      waiting = []
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    get open() {
      return sockets.size
    },
    get writtenBytes() {
      let bytes = leftBytes
      // Bytes that wait in this process have not been taken by anybody.
      for (const socket of sockets) bytes += socket.bytesWritten - socket.writableLength
      return bytes
    },
    async abandoned() {
      while (sockets.size > 0) await new Promise<void>((resolve) => waiting.push(resolve))
    },
    stop() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
