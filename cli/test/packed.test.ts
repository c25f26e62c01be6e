/** The package as people get it: packed, installed into an empty folder by npm, and used with a server elsewhere. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../server/test/acceptance/terminal.ts'
import { type CliServer, cliEnvironment, startCliServer } from './typeCli.ts'

setDefaultTimeout(120_000)

const CLI = join(import.meta.dirname, '..')
const BYTES_MAX = 3_000_000

let cli: CliServer
beforeAll(async () => {
  cli = await startCliServer()
})
afterAll(() => cli?.remove())

async function bytesIn(place: string): Promise<number> {
  const entries = await readdir(place, { recursive: true, withFileTypes: true })
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => Bun.file(join(entry.parentPath, entry.name)).size)
  return files.reduce((sum, each) => sum + each, 0)
}

test('it installs without a network and without its optional package, in under 3 MB, and works', async () => {
  // Bun's folder goes first: npm runs the build of the package with it.
  const PATH = `${join(CLI, '../node_modules/.bin')}:${process.env['PATH']}`
  const packed = await run('npm', ['pack', '--pack-destination', cli.folder, '--loglevel', 'error'], CLI, { PATH })
    .ended
  expect(packed).toMatchObject({ code: 0 })
  const tarball = (await readdir(cli.folder)).find((name) => name.endsWith('.tgz')) ?? ''
  const home = join(cli.folder, 'empty')
  await mkdir(home)
  const words = ['install', '--offline', '--omit=optional', '--no-audit', '--no-fund', '--prefix', home]
  expect(await run('npm', [...words, join(cli.folder, tarball)], home, {}).ended).toMatchObject({ code: 0 })
  expect(await bytesIn(join(home, 'node_modules'))).toBeLessThan(BYTES_MAX)
  expect((await readdir(join(home, 'node_modules/@tollgate/cli/dist'))).sort()).toEqual(['LICENSES.txt', 'tollgate.js'])

  const environment = cliEnvironment({
    folder: home,
    environment: { TOLLGATE_API_KEY: cli.server.firstKey, TOLLGATE_URL: cli.server.url, TOLLGATE_KEYCHAIN: '' },
  })
  const tollgate = (...typed: string[]) => run(join(home, 'node_modules/.bin/tollgate'), typed, home, environment).ended
  expect(await tollgate('--version')).toMatchObject({ code: 0, stderr: '' })
  expect((await tollgate('chat', 'Hello', '--model', 'svc/sandbox')).stdout).toStartWith('This is a simulated answer')
  expect(JSON.parse((await tollgate('balance', '--json')).stdout)).toMatchObject({ balance_cents: expect.any(Number) })
})
