/** `tollgate video` as people use it: real processes, a real server that is killed meanwhile, a real terminal. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Typed } from '../../server/test/acceptance/terminal.ts'
import { freePort } from '../../server/test/freePort.ts'
import { startServer, type TestServer } from '../../server/test/server.ts'
import { CTRL_C, typeCli, typeCliOnTerminal } from './typeCli.ts'

setDefaultTimeout(120_000)

/** One job at a time: what waits behind a job that a killed server forgets is made by the next server. */
const SETTINGS = `
providers:
  box: { dialect: sandbox }
models:
  - id: svc/film
    modality: video
    pricing: { per_video_second_cents: 5 }
    parameters: [{ name: seconds, type: int, default: 1, max: 4 }]
    video: { concurrency: 1 }
    targets: [{ provider: box, model: film }]
  - id: svc/talk
    context_length: 8192
    pricing: { input_per_1m_tokens_cents: 10, output_per_1m_tokens_cents: 10 }
    targets: [{ provider: box, model: talk }]
`

let port: number
let server: TestServer
let key: string
let folder: string
const proxies: Server[] = []
beforeAll(async () => {
  port = await freePort()
  server = await startServer({ settings: SETTINGS, port })
  key = server.firstKey
  folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
})
afterAll(async () => {
  for (const proxy of proxies) proxy.close()
  await server?.remove()
  if (folder !== undefined) await rm(folder, { recursive: true, force: true })
})

const environmentOf = () => ({ TOLLGATE_API_KEY: key, TOLLGATE_URL: `http://127.0.0.1:${port}` })

function type(words: readonly string[], environment: Record<string, string> = {}): Typed {
  return typeCli(words, { folder, environment: { ...environmentOf(), ...environment } })
}

const create = (prompt: string, ...more: string[]) => ['video', 'create', prompt, '--model', 'svc/film', ...more]

/** Takes a second for a tenth of one: there is time to do something meanwhile. */
const SLOW = 'slow [[sandbox video_seconds_per_second=0.1]]'

async function isClip(name: string): Promise<boolean> {
  const bytes = await readFile(join(folder, name))
  return bytes.subarray(4, 8).toString('latin1') === 'ftyp'
}

const typeOnTerminal = (words: readonly string[]) => typeCliOnTerminal(words, { folder, environment: environmentOf() })

test('on a terminal there is a bar, and it is wiped away', async () => {
  const { ended } = typeOnTerminal(create('A gate [[sandbox video_seconds_per_second=0.5]]', '--output', 'bar.mp4'))
  const { code, screen } = await ended
  expect(code).toBe(0)
  expect(screen).toMatch(/^Video \S+ is accepted\. Ctrl-C stops the waiting, not the video\.\r\n\r\[/)
  expect(screen).toMatch(/\[#+\.+\] +\d+% {2}being made/)
  const [last = ''] = screen.split('\r\u001b[K').slice(-1)
  expect(last).toMatch(/^Video \S+: 1 s for \$0\.05\. It is in bar\.mp4\.\r\n$/)
  expect(await isClip('bar.mp4')).toBe(true)
})

test('piped, there are lines and no bar; a file that is there is replaced', async () => {
  await writeFile(join(folder, 'piped.mp4'), 'what was there')
  const words = create('A gate [[sandbox video_seconds_per_second=0.5]]', '--output', 'piped.mp4')
  const { code, stdout, stderr } = await type(words).ended
  expect(code).toBe(0)
  expect(stdout).toMatch(/^Video \S+: 1 s for \$0\.05\. It is in piped\.mp4\.\n$/)
  expect(stderr).toMatch(/^(Video \S+: (waiting for its turn|being made, \d?0%)\n)+$/)
  expect(await isClip('piped.mp4')).toBe(true)
})

test('Ctrl-C leaves the job, and what it says brings one back or ends it', async () => {
  const { ended, shows, types } = typeOnTerminal(create(SLOW, '--output', 'left.mp4'))
  await shows('being made')
  types(CTRL_C)
  const { code, screen } = await ended
  expect(code).toBe(130)
  const id = /left video (\S+), which goes on/.exec(screen)?.[1] ?? ''
  expect(screen).toEndWith(
    `"tollgate video wait ${id} --output left.mp4" waits for it,\r\n"tollgate video cancel ${id}" ends it\r\n`,
  )
  expect((await readdir(folder)).filter((name) => name.startsWith('left'))).toEqual([])
  const back = await type(['video', 'wait', id, '--output', 'left.mp4', '--json']).ended
  expect(JSON.parse(back.stdout)).toMatchObject({ id, status: 'completed', cost_cents: 5, output: 'left.mp4' })
  expect(await isClip('left.mp4')).toBe(true)

  const other = await type(create(SLOW, '--json')).ended
  const { id: otherId } = JSON.parse(other.stdout)
  const cancelled = await type(['video', 'cancel', otherId]).ended
  expect(cancelled).toMatchObject({ code: 0, stdout: `Cancelled video ${otherId}; nothing was charged.\n` })
  expect((await type(['video', 'wait', otherId]).ended).stderr).toBe(
    `tollgate: video ${otherId} is cancelled; nothing was charged\n`,
  )
  expect((await type(['video', 'cancel', id]).ended).code).toBe(1)
})

test('a server that is killed and started again while a job is waited for', async () => {
  const first = type(create(SLOW, '--wait'))
  await first.says('being made')
  const second = type(create('behind it', '--output', 'behind.mp4'))
  await second.says('waiting for its turn')
  await server.kill()
  await Promise.all([first.says('does not answer'), second.says('does not answer')])
  server = await startServer({ settings: SETTINGS, port, dataDir: server.dataDir })
  const { code, stdout } = await first.ended
  expect([code, stdout]).toEqual([0, expect.stringMatching(/: \d+ s for \$\d+\.\d\d\. For 24 hours /)])
  expect(await second.ended).toMatchObject({ code: 0 })
  expect(await isClip('behind.mp4')).toBe(true)
})

/** Passes everything on, but breaks the first download off in its middle. */
async function startCuttingProxy(): Promise<string> {
  let isCut = false
  const proxy = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray())
    const answer = await fetch(`http://127.0.0.1:${port}${request.url}`, {
      method: request.method ?? 'GET',
      headers: { authorization: request.headers.authorization ?? '', 'content-type': 'application/json' },
      ...(body.byteLength > 0 && { body }),
    })
    const bytes = Buffer.from(await answer.arrayBuffer())
    response.writeHead(answer.status, { 'content-type': 'application/json', 'content-length': bytes.byteLength })
    if (!isCut && request.url?.endsWith('/content')) {
      isCut = true
      response.write(bytes.subarray(0, bytes.byteLength / 2), () => response.destroy())
    } else response.end(bytes)
  })
  proxies.push(proxy)
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
}

test('a download that breaks off is begun again, and what came of the first is gone', async () => {
  const url = await startCuttingProxy()
  const words = create('A gate [[sandbox video_seconds_per_second=0]]', '--output', 'cut.mp4', '--server', url)
  const { code, stderr } = await type(words).ended
  expect(code).toBe(0)
  expect(stderr).toContain('the server does not answer, trying again')
  expect(await isClip('cut.mp4')).toBe(true)
  expect((await readdir(folder)).filter((name) => name.endsWith('.unfinished'))).toEqual([])
})

test('a mistake is one line that says what to do, and nothing is paid for', async () => {
  const { key: readingKey } = await server.command('keys', 'create', '--org', 'default', '--scope', 'billing:read')
  await server.command('orgs', 'create', 'poor')
  const { key: poorKey } = await server.command('keys', 'create', '--org', 'poor', '--scope', 'full_access')
  await mkdir(join(folder, 'a-folder'))
  const before = await balance()
  const cases: [string[], Record<string, string>, number, RegExp][] = [
    [create('x'), { TOLLGATE_API_KEY: '' }, 4, /there is no API key for .*: set TOLLGATE_API_KEY, or log in/],
    [create('x'), { TOLLGATE_API_KEY: `svc_live_${'a'.repeat(24)}` }, 4, /The API key is malformed, unknown/],
    [create('x'), { TOLLGATE_API_KEY: String(readingKey) }, 1, /it needs the scope 'serverless:write'/],
    [create('x'), { TOLLGATE_API_KEY: String(poorKey) }, 1, /balance/],
    [['video', 'create', 'x', '--model', 'svc/none'], {}, 1, /'svc\/none' does not exist: GET \/v1\/models lists/],
    [['video', 'create', 'x', '--model', 'svc/talk'], {}, 1, /its modality is 'chat', not 'video'/],
    [['video', 'create', 'x'], {}, 2, /required option '--model <ID>' not specified/],
    [create('x', '--seconds', '9'), {}, 1, /'seconds' must be from 1 to 4/],
    [create('x', '--size', 'large'), {}, 1, /'size'/],
    [
      create('x', '--output', 'nowhere/clip.mp4'),
      {},
      2,
      /--output: nowhere\/clip\.mp4 can't be written: there is no such/,
    ],
    [create('x', '--output', 'a-folder'), {}, 2, /--output: a-folder can't be written/],
    [create('x', '--output', '/dev/null'), {}, 2, /--output: \/dev\/null can't be written/],
    [
      create('x', '--server', 'http://127.0.0.1:1'),
      {},
      1,
      /http:\/\/127\.0\.0\.1:1 can't be reached: the connection is refused; check that it runs/,
    ],
    [create('x', '--server', server.adminUrl), {}, 1, /answered with 404, but not like a Tollgate server/],
    [['video', 'wait', 'nonsense'], {}, 1, /There is no video with this id: "tollgate video list" lists yours/],
    [['video', 'cancel', 'nonsense'], {}, 1, /There is no video with this id/],
  ]
  for (const [words, environment, code, says] of cases) {
    const ended = await type(words, environment).ended
    expect({ words, code: ended.code, stdout: ended.stdout }).toEqual({ words, code, stdout: '' })
    expect(ended.stderr).toMatch(says)
    expect(ended.stderr).toMatch(/^tollgate: [^\n]+\n$/)
  }
  expect(await balance()).toEqual(before)
})

async function balance(): Promise<unknown> {
  const answer = await fetch(`${server.url}/billing/balance`, { headers: { Authorization: `Bearer ${key}` } })
  return await answer.json()
}
