/** The installed command logs in by a real browser, against the real server. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { type Chromium, openChromium } from '../../server/test/chromium.ts'
import { startServer, type TestServer } from '../../server/test/server.ts'
import { typeCli, typeCliOnTerminal } from './typeCli.ts'

const LONG_MS = 120_000
const PASSWORD = 'a long enough phrase'
const EMAIL = 'ada@example.com'

let server: TestServer
let chromium: Chromium
let base: string
beforeAll(async () => {
  server = await startServer({ settings: 'accounts: {}\n' })
  base = server.url.replace(/\/v1$/, '')
  chromium = await openChromium()
}, LONG_MS)
afterAll(async () => {
  await chromium.close()
  await server.remove()
}, LONG_MS)

test(
  'the installed command logs in: its code is typed and approved in a browser, its key works, and logout revokes it',
  async () => {
    const facts = JSON.parse(server.output().split('\n')[0] ?? '{}')
    const first = await chromium.tab()
    await first.open((await readFile(facts.set_up_file, 'utf8')).trim())
    await first.submit({ name: 'Ada', email: EMAIL, new_password: PASSWORD }, 'Make the account')
    const tab = await chromium.tab()
    const folder = server.dataDir
    const environment = { TOLLGATE_URL: base }
    const { ended, shows, kill } = typeCliOnTerminal(['login'], { folder, environment })
    try {
      const code = /type the code (\S+) there/.exec(await shows(' there.'))?.[1] ?? ''
      await tab.open(`${base}/account/device`)
      expect(await tab.url()).toBe(`${base}/account/sign-in?next=device`)
      await tab.submit({ email: EMAIL, password: PASSWORD }, 'Sign in')
      expect(await tab.url()).toBe(`${base}/account/device`)
      await tab.submit({ code }, 'Continue')
      expect(await tab.text()).toContain(`Its machine calls itself ${hostname()}.`)
      await tab.submit({ webhooks: 'none' }, 'Approve')
      expect(await tab.text()).toContain('gets its key within some seconds')
      const { code: exitCode, screen } = await ended
      expect([exitCode, screen]).toEqual([0, expect.stringContaining(`Logged in to ${base}.`)])
    } finally {
      kill()
    }
    const type = async (...words: string[]) => (await typeCli(words, { folder, environment }).ended).stdout
    expect(JSON.parse(await type('whoami', '--json'))).toMatchObject({ scope: 'serverless:write,billing:write' })
    expect(JSON.parse(await type('logout', '--json'))).toMatchObject({ revoked: true })
  },
  LONG_MS,
)
