/** A gigabyte out of a file to a client that takes its time: the server's memory does not grow with it. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { TestKey } from '../../../test/customer.ts'
import { type Gateway, openGateway } from '../../../test/gateway.ts'
import { makeHollowVideo } from '../../../test/hollowVideo.ts'
import { listen } from '../../infra/httpServer.ts'

const BYTES = 1 << 30
const GROWTH_MOST_BYTES = 96 << 20

/** Takes the answer piece by piece, with a rest now and then. */
const CLIENT = `
  const [url, key] = process.argv.slice(1)
  const response = await fetch(url, { headers: { Authorization: 'Bearer ' + key } })
  let bytes = 0, rest = 0
  for await (const piece of response.body) {
    bytes += piece.byteLength
    if (bytes - rest > 1 << 26) await Bun.sleep(50), (rest = bytes)
  }
  console.log(response.status, bytes)
`

let gateway: Gateway
let key: TestKey
let url: string
let stop: () => Promise<void>
beforeAll(async () => {
  gateway = await openGateway()
  key = await gateway.customer()
  const server = listen({
    host: '127.0.0.1',
    port: 0,
    maxBodyBytes: 1 << 20,
    handle: gateway.app.handle,
    onError: (error) => new Response(String(error), { status: 500 }),
  })
  url = `http://127.0.0.1:${server.port}${await makeHollowVideo(gateway, key, BYTES, Date.now())}`
  stop = () => server.kill()
})
afterAll(async () => {
  await stop()
  await gateway.close()
})

test('a gigabyte in constant memory, to a program of its own', async () => {
  Bun.gc(true)
  const before = process.memoryUsage.rss()
  let most = before
  const watching = setInterval(() => {
    most = Math.max(most, process.memoryUsage.rss())
  }, 20)
  const client = Bun.spawn([process.execPath, '-e', CLIENT, url, key.key])
  const said = await new Response(client.stdout).text()
  clearInterval(watching)
  console.log(`a gigabyte: resident memory from ${before >> 20} MiB to at most ${most >> 20} MiB`)
  expect(said.trim()).toBe(`200 ${BYTES}`)
  expect(most - before).toBeLessThan(GROWTH_MOST_BYTES)
}, 120_000)
