/** What somebody sees who has just checked this out: the first start, its curl pasted, and whatever may be in the way. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { paste, type Typed, typeCommand } from './terminal.ts'

// Starting PostgreSQL takes a busy machine a while.
setDefaultTimeout(60_000)

let folder: string
let server: Typed
let banner: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
  await chmod(folder, 0o711)
  server = typeCommand(['serve', '--port', '0', '--admin-port', '0'], { folder })
  banner = await server.shows('{"role":"user"')
})
afterAll(async () => {
  server?.process.kill('SIGTERM')
  await server?.ended
  await rm(folder, { recursive: true, force: true })
})

const portOf = () => /127\.0\.0\.1:(\d+)\/v1/.exec(banner)?.[1] ?? ''
const adminPortOf = () => /127\.0\.0\.1:(\d+)\/metrics/.exec(banner)?.[1] ?? ''
const startAgain = (words: readonly string[], environment: Record<string, string> = {}) =>
  typeCommand(['serve', ...words], { folder, environment }).ended

test('the first start shows what is served and at what price, and fits a terminal', () => {
  expect(banner).toMatch(/svc\/sandbox +100 +200 +Simulated/)
  expect(banner).toMatch(/svc\/sandbox:economy +50 +100\n/)
  for (const line of banner.split('\n')) expect(line.length).toBeLessThanOrEqual(110)
  expect(banner.match(/svc_live_[0-9A-Za-z]{24}/g)).toHaveLength(2)
})

test('the curl that it prints, pasted into a shell, gets an answer', async () => {
  const { stdout, code } = await paste(banner.slice(banner.indexOf('\ncurl ')), folder)
  expect(code).toBe(0)
  const answer = JSON.parse(stdout)
  expect(answer).toMatchObject({ object: 'chat.completion', model: 'svc/sandbox' })
  expect(answer.choices[0].message.content).toContain('What is a toll gate?')
})

test('a second server on the same data is refused in one sentence', async () => {
  const { code, stdout, stderr } = await startAgain(['--port', '0', '--admin-port', '0'])
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/^tollgate: Another Tollgate server already serves from the data directory .*--data-dir\.\n$/)
})

test('a port that is taken is named, and the key of the first start is not lost to it', async () => {
  for (const [flag, port] of [
    ['--port', portOf()],
    ['--admin-port', adminPortOf()],
  ] as const) {
    const other = flag === '--port' ? '--admin-port' : '--port'
    const { code, stderr } = await startAgain([flag, port, other, '0', '--data-dir', 'another'])
    expect(code).toBe(1)
    expect(stderr).toContain(`tollgate: port ${port} of 127.0.0.1 is taken by another program`)
    expect(stderr).toContain(`another ${flag}`)
  }
  const next = typeCommand(['serve', '--port', '0', '--admin-port', '0', '--data-dir', 'another'], { folder })
  expect(await next.shows('Try it')).toMatch(/svc_live_[0-9A-Za-z]{24}/)
  next.process.kill('SIGTERM')
  expect((await next.ended).code).toBe(0)
  const later = typeCommand(['serve', '--port', '0', '--admin-port', '0', '--data-dir', 'another'], { folder })
  expect(await later.shows('--data-dir')).toContain(`Make a key with: npx tollgate keys create --org default`)
  later.process.kill('SIGTERM')
  expect((await later.ended).code).toBe(0)
})

test('whatever else is in the way is said in one sentence that says what to do', async () => {
  await writeFile(join(folder, 'a-file'), '')
  await writeFile(join(folder, 'bad.yaml'), 'models:\n  - id: svc/x\n    context_lenght: 8192\n    pricing: {}\n')
  const free = ['--port', '0', '--admin-port', '0']
  const address = ['--host', '192.0.2.1', '--data-dir', 'another']
  const secret = 'postgres://somebody:hidden@127.0.0.1:1/nothing'
  const cases = [
    [[...free, '--data-dir', 'a-file'], {}, /^tollgate: .*a-file is no folder: give another --data-dir\n$/],
    [[...free, ...address], {}, /tollgate: 192\.0\.2\.1 is no address of this machine: give another --host/],
    [free, { DATABASE_URL: 'nonsense' }, /^tollgate: DATABASE_URL: must be an address such as postgres:.*\n$/],
    [free, { DATABASE_URL: secret }, /^tollgate: the database can't be reached .* DATABASE_URL names it\n$/],
    [[...free, '--config', 'bad.yaml'], {}, /bad\.yaml:3:5: .*did you mean 'context_length'\?\n/],
  ] as const
  for (const [words, environment, expected] of cases) {
    const { code, stdout, stderr } = await startAgain(words, environment)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(expected)
    expect(stderr).not.toContain('hidden')
  }
})
