/** Connections that are kept for their next request take no more than half of the descriptors of a process. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { startServer, type TestServer } from '../server.ts'

const START_LIMIT_MS = 90_000
const DESCRIPTORS = 600

let server: TestServer
beforeAll(async () => {
  server = await startServer({ wrapper: ['sh', '-c', `ulimit -n ${DESCRIPTORS}; exec "$0" "$@"`] })
}, START_LIMIT_MS)
afterAll(() => server.remove(), START_LIMIT_MS)

/** Sends one request over a connection of its own, which stays open. Resolves to the head of its answer; empty: none came. */
function ask(open: Set<Socket>, key: string): Promise<string> {
  const { port, hostname } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  open.add(socket)
  return new Promise((resolve) => {
    let said = ''
    socket.on('data', (bytes) => {
      said += bytes.toString('latin1')
      if (said.includes('\r\n\r\n')) resolve(said)
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      open.delete(socket)
      resolve(said)
    })
    socket.write(`GET /v1/models HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer ${key}\r\n\r\n`)
  })
}

test('a customer that opens more connections than there are descriptors keeps nobody out', async () => {
  const open = new Set<Socket>()
  const customer = server.firstKey ?? ''
  const heads: string[] = []
  for (let connection = 0; connection < 2 * DESCRIPTORS; connection += 1) heads.push(await ask(open, customer))
  expect(heads.filter((head) => !/^HTTP\/1\.1 (200|429) /.test(head))).toEqual([])
  expect(heads.filter((head) => /^connection: close/im.test(head)).length).toBeGreaterThan(DESCRIPTORS)
  expect(open.size).toBeLessThan(0.7 * DESCRIPTORS)
  for (const socket of open) socket.destroy()
})
