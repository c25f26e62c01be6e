import { afterEach, beforeEach, expect, test } from 'bun:test'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { InstallFailure, installPackages, isInstalled } from './npmPackages.ts'

let folder: string
let environment: Record<string, string | undefined>

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'npm-packages-'))
  await writeFile(join(folder, 'package.json'), '{"name":"some"}')
  await writeFile(join(folder, 'package-lock.json'), '{"lockfileVersion":3}')
  environment = { ...process.env, npm_config_local_prefix: '/elsewhere', INIT_CWD: '/elsewhere' }
})
afterEach(() => rm(folder, { recursive: true, force: true }))

/** A program in the place of npm: writes down how it was called, and makes `node_modules/some` out of the lock file. */
async function npmThat(ends: string): Promise<string> {
  const file = join(folder, 'npm')
  const script = [
    '#!/bin/sh',
    `echo "$@ \${npm_config_local_prefix-none} \${INIT_CWD-none}" >> "${folder}/called"`,
    'mkdir -p node_modules/some && cp package-lock.json node_modules/some/lock',
    ends,
  ]
  await writeFile(file, script.join('\n'))
  await chmod(file, 0o755)
  return file
}

const calls = () =>
  readFile(join(folder, 'called'), 'utf8').then(
    (text) => text.trim().split('\n'),
    () => [],
  )
const leftBehind = async () => (await readdir(folder)).filter((name) => name.startsWith('.staging-'))

async function failure(installing: Promise<unknown>): Promise<string> {
  const error = await installing.then(
    () => null,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(InstallFailure)
  return error instanceof Error ? error.message : ''
}

test('packages are installed once, by the lock file, without their scripts, and whatever npm script runs this', async () => {
  const npm = await npmThat('exit 0')
  expect(await isInstalled(folder)).toBe(false)
  expect(await installPackages({ folder, environment, npm })).toBe(true)
  expect(await isInstalled(folder)).toBe(true)
  expect(await installPackages({ folder, environment, npm })).toBe(false)
  const [call = '', ...more] = await calls()
  expect(call).toMatch(/^ci --prefix \S+\/\.staging-\d+ --ignore-scripts --no-audit --no-fund none none$/)
  expect(more).toEqual([])
  expect(await leftBehind()).toEqual([])
})

test('packages of another lock file do not count, and are replaced', async () => {
  const npm = await npmThat('exit 0')
  await installPackages({ folder, environment, npm })
  await writeFile(join(folder, 'package-lock.json'), '{"lockfileVersion":3,"later":true}')
  expect(await isInstalled(folder)).toBe(false)
  expect(await installPackages({ folder, environment, npm })).toBe(true)
  expect(await readFile(join(folder, 'node_modules/some/lock'), 'utf8')).toContain('later')
})

test('an installation that was killed counts for nothing, and the next one clears it away', async () => {
  // Of a process that is gone: half of its packages, and a folder that was never finished.
  const gone = Bun.spawnSync(['true']).pid
  await mkdir(join(folder, `.staging-${gone}`, 'node_modules/half'), { recursive: true })
  await mkdir(join(folder, 'node_modules/half'), { recursive: true })
  expect(await isInstalled(folder)).toBe(false)
  expect(await installPackages({ folder, environment, npm: await npmThat('exit 0') })).toBe(true)
  expect(await readdir(join(folder, 'node_modules'))).toEqual(['.tollgate-lock', 'some'])
  expect(await leftBehind()).toEqual([])
})

test('where npm fails, is missing, or may not write, one sentence says why, and nothing is left', async () => {
  const failing = await npmThat('echo "npm error code ENOTFOUND" >&2; echo "npm error registry is away" >&2; exit 1')
  expect(await failure(installPackages({ folder, environment, npm: failing }))).toBe(
    'npm could not install the packages: code ENOTFOUND registry is away',
  )
  expect(await failure(installPackages({ folder, environment, npm: '/nowhere/npm' }))).toContain(
    '/nowhere/npm is not found: install Node',
  )
  expect([await isInstalled(folder), await leftBehind()]).toEqual([false, []])
})
