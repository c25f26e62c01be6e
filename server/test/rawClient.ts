import { connect } from 'node:net'

/** Sends bytes to a server on the loopback and resolves to all that it says until it, or `enough`, ends the talk. */
export function talk(
  url: string,
  sent: string | Uint8Array,
  options: { readonly enough?: RegExp; readonly hangUp?: boolean } = {},
): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>()
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  let said = ''
  socket.on('data', (bytes) => {
    said += bytes.toString('latin1')
    if (options.enough?.test(said)) socket.destroy()
  })
  // A server that has refused may reset the connection while we still send: what it said counts.
  socket.on('error', () => {})
  socket.on('close', () => resolve(said))
  socket.write(sent, () => {
    if (options.hangUp) socket.destroy()
  })
  return promise
}
