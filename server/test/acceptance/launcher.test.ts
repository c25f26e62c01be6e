/** The script `tollgate` at the root of the checkout: from any folder, through links, on a path with spaces. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from './terminal.ts'

const CHECKOUT = join(import.meta.dirname, '../../..')
const SCRIPT = join(CHECKOUT, 'tollgate')

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate launcher '))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const versionBy = async (program: string, words: readonly string[] = [], environment = {}) => {
  const { code, stdout, stderr } = await run(program, [...words, '--version'], folder, environment).ended
  return { code, stdout, stderr }
}
const VERSION = { code: 0, stdout: expect.stringMatching(/^tollgate \d+\.\d+\.\d+\n$/), stderr: '' }

test('the command runs from another folder, through absolute and relative links, and by a shell', async () => {
  await symlink(SCRIPT, join(folder, 'absolute'))
  await mkdir(join(folder, 'bin'))
  await symlink('../absolute', join(folder, 'bin/relative'))
  expect(await versionBy(SCRIPT)).toEqual(VERSION)
  expect(await versionBy('./absolute')).toEqual(VERSION)
  expect(await versionBy('./bin/relative')).toEqual(VERSION)
  expect(await versionBy('sh', [join(folder, 'bin/relative')])).toEqual(VERSION)
  // A shell's CDPATH would make `cd` print where it went.
  expect(await versionBy('bin/relative', [], { CDPATH: `${folder}:/` })).toEqual(VERSION)
})

test('a checkout on a path with spaces runs, and one without its packages says what to do', async () => {
  const checkout = join(folder, 'a check out')
  await mkdir(checkout)
  await copyFile(SCRIPT, join(checkout, 'tollgate'))
  const missing = await versionBy(join(checkout, 'tollgate'))
  expect(missing).toEqual({ code: 1, stdout: '', stderr: expect.stringContaining("run 'npm ci' in") })
  for (const name of ['server', 'node_modules']) await symlink(join(CHECKOUT, name), join(checkout, name))
  expect(await versionBy(join(checkout, 'tollgate'))).toEqual(VERSION)
})

test('no page tells anyone to run npx tollgate, which asks the registry for a package of that name', async () => {
  const pages = ['*.md', '*.yaml', 'docs/**/*.md', '{server,cli}/**/*.md']
    .flatMap((pattern) => [...new Bun.Glob(pattern).scanSync(CHECKOUT)])
    .filter((name) => !name.includes('node_modules'))
    .concat('server/src/commands/banner.ts', 'server/src/commands/help.ts')
  expect(pages).toContain('docs/operating.md')
  for (const page of pages) {
    const text = await readFile(join(CHECKOUT, page), 'utf8')
    expect({ page, found: text.match(/npx (?!--no-install\b)[^\n]*\btollgate\b/g) }).toEqual({ page, found: null })
  }
})

test('the systemd unit of the documents can be enabled as it is printed', async () => {
  const page = await readFile(join(CHECKOUT, 'docs/operating.md'), 'utf8')
  const unit = /```ini\n([^`]*)```/.exec(page)?.[1] ?? ''
  expect(unit.match(/^\[\w+\]$/gm)).toEqual(['[Unit]', '[Service]', '[Install]'])
  expect(unit).toContain('\n[Install]\nWantedBy=multi-user.target\n')
  const program = /^ExecStart=\/opt\/tollgate\/(\S+) serve /m.exec(unit)?.[1] ?? ''
  expect(join(CHECKOUT, program)).toBe(SCRIPT)
  const analyze = Bun.which('systemd-analyze')
  if (analyze === null) return
  // systemd takes a blank for the end of a path, and the checkout may lie beneath one.
  const plain = await mkdtemp(join(tmpdir(), 'tollgate-unit-'))
  const file = join(plain, 'tollgate.service')
  await symlink(CHECKOUT, join(plain, 'checkout'))
  await writeFile(file, unit.replaceAll('/opt/tollgate', join(plain, 'checkout')))
  const { code, stdout, stderr } = await run(analyze, ['verify', file], folder, {}).ended
  await rm(plain, { recursive: true })
  expect([code, stdout, stderr]).toEqual([0, '', ''])
})
