/** A host that swallows packets. Needs Python: of the runtimes at hand only that makes a queue that is full at once. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { TurnedClock } from '../../../test/clock.ts'
import { createHttp } from './client.ts'

/** Listens, takes nothing, and fills its queue: the kernel drops who comes then. The loopback is one of its own. */
const SWALLOWING = `
import socket, sys
listening = socket.socket()
listening.bind(('127.0.0.1', 0))
listening.listen(0)
waiting = []
for _ in range(4):
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(listening.getsockname())
    waiting.append(one)
print(listening.getsockname()[1], flush=True)
sys.stdin.read()
`

let host: Bun.Subprocess<'pipe', 'pipe'>
let url = ''
beforeAll(async () => {
  host = Bun.spawn(['python3', '-c', SWALLOWING], { stdin: 'pipe', stdout: 'pipe' })
  const { value } = await host.stdout.getReader().read()
  url = `http://127.0.0.1:${new TextDecoder().decode(value).trim()}/`
})
afterAll(async () => {
  host.kill()
  await host.exited
})

const descriptors = () => readdirSync('/proc/self/fd').length

test('connections that the system goes on to try are counted, and a host gets no more than so many', async () => {
  const clock = new TurnedClock()
  const http = createHttp(clock, { givenUpMost: 4 })
  const call = async (waitMs: number) => {
    const signal = new AbortController().signal
    const calling = http.post(url, { headers: {}, body: '{}', signal, maxBytes: 1, connectMs: 1_000 }).then(
      () => 'reached',
      (error: { readonly code: string }) => error.code,
    )
    await clock.turn(waitMs)
    return await calling
  }
  const before = descriptors()
  for (let count = 0; count < 20; count += 1) expect(await call(1_000)).toBe('ETIMEDOUT')
  expect(descriptors() - before).toBeLessThanOrEqual(4)
  // When it is there again, so are its connections, and calls reach it.
  host.kill()
  await host.exited
  let last = await call(0)
  while (last === 'ETIMEDOUT') {
    await Bun.sleep(200)
    last = await call(0)
  }
  expect(last).toBe('ECONNREFUSED')
  expect(descriptors()).toBeLessThanOrEqual(before)
})
