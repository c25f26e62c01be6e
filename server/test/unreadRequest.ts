import { connect, type Socket } from 'node:net'

/** A server, and the key that calls it. */
interface Called {
  readonly port: number
  readonly key: string
}

/** Posts a body beneath `/v1` over a connection of its own, and reads nothing of the answer until the test resumes the socket. */
export function postUnread({ port, key }: Called, path: string, what: object): Socket {
  const body = JSON.stringify(what)
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.pause()
  socket.write(
    `POST /v1${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
  return socket
}
