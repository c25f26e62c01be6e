/** A person and a device against the real server, in Chromium with its virtual authenticator. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { type Chromium, openChromium } from '../chromium.ts'
import { freePort } from '../freePort.ts'
import { startServer, type TestServer } from '../server.ts'

const LONG_MS = 120_000
const AUTHENTICATOR = {
  protocol: 'ctap2',
  transport: 'internal',
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
}

let server: TestServer
let chromium: Chromium
let base: string
beforeAll(async () => {
  const port = await freePort()
  base = `http://localhost:${port}`
  server = await startServer({ port, settings: `accounts: { passkeys: true }\npublic_url: ${base}\n` })
  chromium = await openChromium()
}, LONG_MS)
afterAll(async () => {
  await chromium.close()
  await server.remove()
}, LONG_MS)

test(
  'a passkey is added, signs in, is renamed and removed',
  async () => {
    const tab = await chromium.tab()
    await tab.send('WebAuthn.enable', {})
    const { authenticatorId } = await tab.send('WebAuthn.addVirtualAuthenticator', { options: AUTHENTICATOR })
    const facts = JSON.parse(server.output().split('\n')[0] ?? '{}')
    await tab.open((await readFile(facts.set_up_file, 'utf8')).trim())
    const password = 'a long enough phrase'
    await tab.submit({ name: 'Ada', email: 'ada@example.com', new_password: password }, 'Make the account')

    await tab.open(`${base}/account/passkeys/new`)
    await tab.submit({ name: 'laptop' }, 'Add the passkey')
    expect(await tab.url()).toBe(`${base}/account/passkeys`)
    expect(await tab.text()).toMatch(/laptop, added .*, never used/)
    await tab.open(`${base}/account`)
    await tab.submit({}, 'Sign out')

    for (const _time of [1, 2]) {
      await tab.open(`${base}/account/passkey`)
      await tab.submit({}, 'Use a passkey')
      expect(await tab.url()).toBe(`${base}/account`)
      expect(await tab.text()).toContain('ada@example.com')
    }

    await tab.open(`${base}/account/passkeys`)
    await tab.submit({ name: 'old laptop' }, 'Rename')
    expect(await tab.text()).toMatch(/old laptop, added .*, last used/)
    await tab.submit({}, 'Remove')
    expect(await tab.text()).toContain('You have no passkey.')
    await tab.open(`${base}/account`)
    await tab.submit({}, 'Sign out')
    await tab.open(`${base}/account/passkey`)
    await tab.submit({}, 'Use a passkey')
    expect(await tab.text()).toContain('You are not signed in')

    // The device has none any more: the page says so, and stays.
    await tab.send('WebAuthn.clearCredentials', { authenticatorId })
    await tab.evaluate("document.querySelector('button').click()")
    for (let looks = 0; looks < 200 && !(await tab.text()).includes('Your device gave no passkey'); looks += 1)
      await Bun.sleep(25)
    expect(await tab.text()).toContain('Your device gave no passkey')
  },
  LONG_MS,
)
