/** Asks apps of instances at their hosts, as a customer's program does. */

import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'

export interface AppAnswer {
  readonly status: number | undefined
  readonly headers: IncomingMessage['headers']
  readonly text: string
}

/** The header with which a password is shown. */
export function basic(password: string): string {
  return `Basic ${Buffer.from(`tollgate:${password}`).toString('base64')}`
}

/** Asks the app of an instance beneath `apps.localhost`; with a body, by POST. */
export async function askApp(
  port: number,
  { id }: { readonly id: string },
  path: string,
  { host = `${id}.apps.localhost`, ...headers }: Readonly<Record<string, string>>,
  body?: string,
): Promise<AppAnswer> {
  const method = body === undefined ? 'GET' : 'POST'
  const asked = request({ host: '127.0.0.1', port, path, method, headers: { host, ...headers }, agent: false })
  asked.end(body)
  const [got] = (await once(asked, 'response')) as [IncomingMessage]
  let text = ''
  for await (const bytes of got) text += bytes
  return { status: got.statusCode, headers: got.headers, text }
}

export interface AppSocket {
  readonly socket: WebSocket
  readonly closed: Promise<void>
  /** Sends a text, and resolves with what comes next. */
  echo(text: string): Promise<string>
}

/** Opens a WebSocket to the app of an instance beneath `apps.localhost`. Rejects where it is refused. */
export async function openAppSocket(
  port: number,
  { id }: { readonly id: string },
  { host = `${id}.apps.localhost`, ...headers }: Readonly<Record<string, string>>,
): Promise<AppSocket> {
  const Socket = WebSocket as unknown as new (url: string, options: object) => WebSocket
  const socket = new Socket(`ws://127.0.0.1:${port}/socket`, { headers: { Host: host, ...headers } })
  const closed = new Promise<void>((resolve) => socket.addEventListener('close', () => resolve()))
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve)
    socket.addEventListener('error', reject)
  })
  return {
    closed,
    socket,
    async echo(text) {
      const heard = new Promise<string>((resolve) =>
        socket.addEventListener('message', ({ data }) => resolve(String(data)), { once: true }),
      )
      socket.send(text)
      return heard
    },
  }
}
