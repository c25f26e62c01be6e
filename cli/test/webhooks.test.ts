/** Webhooks by the real command and the real server, and by the receiver that the documentation prints. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { type ChildProcess, spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createDescription, type Description } from '../../server/test/acceptance/description.ts'
import type { Ended, Typed } from '../../server/test/acceptance/terminal.ts'
import { freePort } from '../../server/test/freePort.ts'
import { startServer, type TestServer } from '../../server/test/server.ts'
import { type Receiver, startReceiver } from '../../server/test/webhookReceiver.ts'
import { typeCli } from './typeCli.ts'

setDefaultTimeout(60_000)

let server: TestServer
let receiver: Receiver
let managed: Description
const typed: Typed[] = []
const started: ChildProcess[] = []
beforeAll(async () => {
  server = await startServer({ environment: { TOLLGATE_WEBHOOK_ALLOW: '127.0.0.0/8' } })
  receiver = await startReceiver()
  managed = createDescription(await (await fetch(new URL('/manage/openapi.json', server.url))).json())
})
afterAll(async () => {
  for (const each of typed) {
    each.process.kill('SIGINT')
    await each.ended
  }
  for (const each of started) each.kill()
  receiver?.stop()
  await server?.remove()
})

function type(words: readonly string[], environment: Record<string, string> = {}): Typed {
  const own = { TOLLGATE_API_KEY: server.firstKey, TOLLGATE_URL: server.url, ...environment }
  return typeCli(words, { folder: server.dataDir, environment: own })
}

async function json<T>(...words: string[]): Promise<T> {
  const { code, stdout, stderr } = await type([...words, '--json']).ended
  expect([code, stderr]).toEqual([0, ''])
  return JSON.parse(stdout)
}

interface Shown {
  readonly id: string
  readonly secret: string
  readonly event_id: string
  readonly state: string
}

/** Asks until a delivery of the event has this state. */
async function until(eventId: string, state: string): Promise<Shown> {
  for (;;) {
    const [found] = (await json<{ data: Shown[] }>('webhooks', 'deliveries', '--event', eventId)).data
    if (found?.state === state) return found
  }
}

test('an endpoint is made, tried, looked at, used again and deleted by commands', async () => {
  const url = `${receiver.url}/commands`
  const made = await json<Shown>('webhooks', 'create', url, '--events', 'video.completed, video.failed')
  expect(made.secret).toMatch(/^[0-9a-f]{64}$/)
  expect(await json('webhooks', 'list')).toMatchObject({ data: [{ id: made.id, url }] })
  const sample = await json<Shown>('webhooks', 'test', made.id, '--type', 'video.failed')
  managed.checkSchema('Delivery', sample)
  const delivered = await until(sample.event_id, 'delivered')
  const again = await json<Shown>('webhooks', 'redeliver', delivered.id)
  managed.checkSchema('Delivery', again)
  expect(again.id).toBe(delivered.id)
  await receiver.until(2)
  expect(new Set(receiver.received.map(({ body }) => body)).size).toBe(1)
  const table = await type(['webhooks', 'deliveries', '--state', 'delivered']).ended
  expect(table.stdout).toMatch(/^ID +TYPE +STATE +ATTEMPTS +NEXT\n[0-9a-f-]{36} +video\.\w+ +delivered +2, 204 +-\n$/)
  expect(await json('webhooks', 'delete', made.id)).toEqual({ id: made.id, deleted: true })
  expect(await json('webhooks', 'list')).toMatchObject({ data: [] })
})

test.each<[string[], Record<string, string>, number, RegExp]>([
  [['webhooks', 'list'], { TOLLGATE_API_KEY: '' }, 4, /TOLLGATE_API_KEY/],
  [['webhooks', 'list'], { TOLLGATE_API_KEY: `svc_live_${'a'.repeat(24)}` }, 4, /key/],
  [['webhooks', 'list'], { TOLLGATE_URL: 'http://127.0.0.1:1' }, 1, /can't be reached/],
  [['webhooks', 'list', '--server', 'nonsense'], {}, 2, /--server/],
  [['webhooks', 'delete', 'nonsense'], {}, 1, /no such webhook endpoint/],
  [['webhooks', 'create', 'http://example.com', '--events', 'video.failed'], {}, 1, /https/],
  [['webhooks', 'deliveries', '--limit', 'x'], {}, 2, /--limit/],
  [['listen', '--forward-to', 'nonsense'], {}, 2, /--forward-to/],
  [['listen', '--forward-to', 'http://127.0.0.1:1/'], { TOLLGATE_URL: 'http://127.0.0.1:1' }, 1, /can't be reached/],
])('%j says what to do', async (words, environment, code, says) => {
  const ended: Ended = await type(words, environment).ended
  expect([ended.code, ended.stdout]).toEqual([code, ''])
  expect(ended.stderr).toMatch(says)
  expect(ended.stderr).not.toContain(server.firstKey)
})

/** Runs the receiver that the README prints, as it is printed. */
async function startPrinted(secret: string): Promise<{ url: string; says: (text: string) => Promise<void> }> {
  const page = await readFile(join(import.meta.dirname, '../../README.md'), 'utf8')
  const code =
    page
      .split('```js\n')
      .find((part) => part.includes('createServer('))
      ?.split('```')[0] ?? ''
  expect(code.trim().split('\n').length).toBeLessThanOrEqual(25)
  const file = join(server.dataDir, 'receiver.mjs')
  await writeFile(file, code)
  const port = await freePort()
  const child = spawn('node', [file], {
    env: { ...process.env, PORT: `${port}`, WEBHOOK_SECRET: secret },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  started.push(child)
  let output = ''
  const waiting: (() => void)[] = []
  child.stdout.on('data', (data) => {
    output += data
    for (const wake of waiting.splice(0)) wake()
  })
  const url = `http://127.0.0.1:${port}/`
  while (
    await fetch(url, { method: 'POST' }).then(
      () => false,
      () => true,
    )
  );
  return {
    url,
    says: async (text) => {
      while (!output.includes(text)) await new Promise<void>((resolve) => waiting.push(resolve))
    },
  }
}

test('events are forwarded by `tollgate listen`, to the receiver that the README prints', async () => {
  const listening = type(['listen', '--forward-to', `${receiver.url}/listen`])
  typed.push(listening)
  const shown = await listening.shows('signed with this secret')
  const secret = /^[0-9a-f]{64}$/m.exec(shown)?.[0] ?? ''
  const printed = await startPrinted(secret)
  const second = type(['listen', '--json', '--forward-to', printed.url])
  typed.push(second)
  await second.shows(`"secret":"${secret}"`)

  const before = receiver.received.length
  const made = await json<Shown>('webhooks', 'create', `${receiver.url}/endpoint`, '--events', 'video.completed')
  const { event_id: eventId } = await json<Shown>('webhooks', 'test', made.id)
  await receiver.until(before + 2)
  await listening.shows(eventId)
  await second.shows('"status":204')
  await printed.says('video.completed video_test')
  const [one, other] = receiver.received.slice(before)
  expect(one?.body).toBe(other?.body ?? '')
  expect([one?.path, other?.path].sort()).toEqual(['/endpoint', '/listen'])

  // It refuses a request that is not genuine, or more than 5 minutes from now.
  const body = one?.body ?? ''
  const signed = (awaySeconds: number) => {
    const seconds = Math.floor(Date.now() / 1_000) + awaySeconds
    return `t=${seconds},v1=${createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')}`
  }
  const send = async (sent: string, signature: string | undefined) => {
    const headers = signature === undefined ? {} : { 'svc-signature': signature }
    return (await fetch(printed.url, { method: 'POST', body: sent, headers })).status
  }
  expect(await send(body, signed(0))).toBe(204)
  for (const away of [-200, 200]) expect(await send(body, signed(away))).toBe(204)
  for (const away of [-400, 400]) expect(await send(body, signed(away))).toBe(400)
  for (const forged of [undefined, signed(0).replace(/.$/, (last) => (last === '0' ? '1' : '0')), 'x']) {
    expect(await send(body, forged)).toBe(400)
  }
  expect(await send(`${body} `, signed(0))).toBe(400)
})
