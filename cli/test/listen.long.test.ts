/** `tollgate listen` through restarts of the server and of the receiver: each event is forwarded, and verified as people would. */

import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { systemClock } from '../../server/src/infra/clock.ts'
import { sleep } from '../../server/src/lib/time.ts'
import type { Typed } from '../../server/test/acceptance/terminal.ts'
import { freePort } from '../../server/test/freePort.ts'
import { Stripe, Webhook } from '../../server/test/packages.ts'
import { startServer, type TestServer } from '../../server/test/server.ts'
import { type Received, type Receiver, startReceiver } from '../../server/test/webhookReceiver.ts'
import { typeCli } from './typeCli.ts'

setDefaultTimeout(180_000)

let port: number
let server: TestServer
let key: string
let receiver: Receiver
let isHanging = false
const typed: Typed[] = []
beforeAll(async () => {
  port = await freePort()
  server = await startServer({ port })
  key = server.firstKey
  receiver = await startReceiver((response) => {
    if (!isHanging) response.writeHead(204).end()
  })
})
afterAll(async () => {
  await stopTyped()
  receiver?.stop()
  await server?.remove()
})
beforeEach(stopTyped)

async function stopTyped(): Promise<void> {
  for (const each of typed.splice(0)) {
    each.process.kill('SIGINT')
    await each.ended
  }
}

function listen(target: string, ...more: string[]): Typed {
  const environment = { TOLLGATE_API_KEY: key, TOLLGATE_URL: `http://127.0.0.1:${port}` }
  const command = typeCli(['listen', '--forward-to', target, ...more], { folder: server.dataDir, environment })
  typed.push(command)
  return command
}

async function secretOf(command: Typed): Promise<string> {
  const shown = await command.shows('signed with this secret')
  return /^[0-9a-f]{64}$/m.exec(shown)?.[0] ?? ''
}

const headers = () => ({ Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' })

async function createVideo(): Promise<string> {
  const body = {
    model: 'svc/sandbox-video',
    prompt: '[[sandbox video_seconds_per_second=0]] x',
    seconds: 1,
    size: '320x180',
  }
  const answer = await fetch(`${server.url}/videos`, { method: 'POST', headers: headers(), body: JSON.stringify(body) })
  expect(answer.status).toBe(202)
  return ((await answer.json()) as { id: string }).id
}

async function statusOf(id: string): Promise<string> {
  const answer = await fetch(`${server.url}/videos/${id}`, { headers: headers() })
  return ((await answer.json()) as { status: string }).status
}

/** Makes some videos and waits until each is over: their events are published by then. */
async function makeEvents(count: number): Promise<string[]> {
  const ids = await Promise.all(Array.from({ length: count }, createVideo))
  for (const id of ids) while (['queued', 'in_progress'].includes(await statusOf(id))) await sleep(systemClock, 100)
  return ids
}

const videoOf = ({ body }: Received): string => JSON.parse(body).data.video.id

async function untilForwarded(ids: readonly string[]): Promise<void> {
  const isThere = (id: string) => receiver.received.some((each) => videoOf(each) === id)
  while (!ids.every(isThere)) await sleep(systemClock, 100)
}

/** As the packages verify it, and as they refuse what was changed. */
async function verify(received: Received, secret: string): Promise<void> {
  const { webhooks } = new Stripe('unused')
  const { body } = received
  const signature = received.headers['svc-signature'] ?? ''
  expect((await webhooks.constructEventAsync(body, signature, secret)).id).toBe(received.headers['svc-event-id'] ?? '')
  expect(webhooks.constructEventAsync(`${body} `, signature, secret)).rejects.toThrow()
  const standard = new Webhook(secret, { format: 'raw' })
  expect(standard.verify(body, received.headers)).toEqual(JSON.parse(body))
  expect(() => standard.verify(`${body} `, received.headers)).toThrow()
}

test('killed, stopped and started again: every event is forwarded once, or the last before twice, and each verifies', async () => {
  const command = listen(receiver.url)
  const secret = await secretOf(command)
  const made = await makeEvents(3)
  await untilForwarded(made)

  let restarts = 0
  for (const end of ['kill', 'stop'] as const) {
    await server[end]()
    await command.says('trying again')
    server = await startServer({ port, dataDir: server.dataDir })
    restarts += 1
    // At once: the stream is taken up again only a second later, or more.
    made.push(...(await makeEvents(3)))
    await untilForwarded(made)
  }
  const { stderr } = await endOf(command)
  expect(stderr.match(/trying again/g)).toHaveLength(restarts)
  expect(stderr.match(/listening again/g)).toHaveLength(restarts)

  const times = new Map<string, number>()
  for (const each of receiver.received) times.set(videoOf(each), (times.get(videoOf(each)) ?? 0) + 1)
  expect([...times.keys()].sort()).toEqual([...made].sort())
  expect(receiver.received.length).toBeLessThanOrEqual(made.length + restarts)
  for (const each of receiver.received) await verify(each, secret)
})

async function endOf(command: Typed) {
  command.process.kill('SIGINT')
  return await command.ended
}

test('a receiver that is not there, or does not answer, is said to be so; the next event is forwarded all the same', async () => {
  const target = await freePort()
  const command = listen(`http://127.0.0.1:${target}/hooks`)
  await secretOf(command)
  await makeEvents(1)
  await command.shows('unreachable, ')
  await command.says(`nothing answers at http://127.0.0.1:${target}/hooks. Check that your server runs`)

  const other = listen(receiver.url, '--json')
  await other.shows('"listening":true')
  isHanging = true
  const [hung = ''] = await makeEvents(1)
  await other.shows('"failure":"timeout"')
  isHanging = false
  const [answered = ''] = await makeEvents(1)
  await other.shows('"status":204')
  const { stdout, stderr } = await endOf(other)
  expect(stderr).toBe('')
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines.slice(1)).toMatchObject([
    { type: 'video.completed', status: null, failure: 'timeout' },
    { type: 'video.completed', status: 204, failure: null },
  ])
  expect(lines[1].latency_ms).toBeGreaterThanOrEqual(9_900)
  expect(receiver.received.slice(-2).map(videoOf)).toEqual([hung, answered])
})

test('a key that is revoked meanwhile ends it, with a reason', async () => {
  const made = await server.command('keys', 'create', '--org', 'default', '--scope', 'webhooks:read')
  const before = key
  key = String(made['key'])
  const command = listen(receiver.url)
  await secretOf(command)
  key = before
  await server.command('keys', 'revoke', String(made['id']))
  await server.stop()
  server = await startServer({ port, dataDir: server.dataDir })
  const { code, stderr } = await command.ended
  typed.splice(0)
  expect(code).toBe(4)
  expect(stderr).toContain('tollgate: The API key is malformed, unknown, expired or revoked: use another one.')
})

test('a key that may not read webhooks is refused at once, in one line', async () => {
  const made = await server.command('keys', 'create', '--org', 'default', '--scope', 'serverless:write')
  const environment = { TOLLGATE_API_KEY: String(made['key']), TOLLGATE_URL: server.url }
  for (const [words, scope] of [
    [['listen', '--forward-to', receiver.url], 'read'],
    [['webhooks', 'list'], 'read'],
    [['webhooks', 'create', 'https://example.com/hooks', '--events', 'video.failed'], 'write'],
  ] as const) {
    const { code, stdout, stderr } = await typeCli(words, { folder: server.dataDir, environment }).ended
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toBe(`tollgate: This key may not do this: it needs the scope 'webhooks:${scope}'.\n`)
  }
})
