/** The driver that asks an operator's executable, with executables that misbehave. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TurnedClock } from '../../../test/clock.ts'
import { systemClock } from '../../infra/clock.ts'
import { commandDriver } from './command.ts'
import { CreateRefused } from './driver.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-command-'))
})
afterAll(() => rm(folder, { recursive: true }))

let scripts = 0
async function scriptOf(body: string): Promise<string> {
  scripts += 1
  const path = join(folder, `script-${scripts}`)
  await writeFile(path, `#!/bin/sh\n${body}\n`)
  await chmod(path, 0o755)
  return path
}

const SPEC = {
  organizationId: '0190b3b4-0000-7000-8000-000000000001',
  ...{ app: 'server', image: 'server:1', command: null, port: 8080, terminal: false },
  ...{ gpuType: 'a100', gpuCount: 2, diskGb: 10, model: "a'; touch x; $(id)" },
}
const never = new AbortController().signal

async function driverFor(body: string, clock = systemClock) {
  return commandDriver({ kind: 'command', path: await scriptOf(body), timeoutMs: 60_000 }, clock)
}

test('asks with one word and JSON, and reads the answer', async () => {
  const asked = join(folder, 'asked')
  const driver = await driverFor(
    `echo "$# $1" > ${asked}; cat >> ${asked}; env >> ${asked}
     echo '{"machine": {"name": "m-1", "state": "creating", "app_url": "http://10.0.0.1:80/x"}}'`,
  )
  expect(await driver.create('m-1', SPEC, never)).toEqual({
    ...{ name: 'm-1', state: 'creating', appUrl: 'http://10.0.0.1:80/x', terminalUrl: null },
  })
  const [words, json, ...environment] = (await readFile(asked, 'utf8')).split('\n')
  expect(words).toBe('1 create')
  const end = (json ?? '').lastIndexOf('}') + 1
  expect(JSON.parse((json ?? '').slice(0, end))).toEqual({
    name: 'm-1',
    spec: {
      ...{ app: 'server', image: 'server:1', command: null, port: 8080, terminal: false },
      ...{ gpu_type: 'a100', gpu_count: 2, disk_gb: 10, model: "a'; touch x; $(id)" },
    },
  })
  const names = [json?.slice(end) ?? '', ...environment]
    .map((line) => line.split('=')[0] ?? '')
    .filter((name) => name !== '')
  expect(names.filter((name) => !['PATH', 'PWD', 'SHLVL', '_', 'OLDPWD'].includes(name))).toEqual([])
})

test('knows a machine that is not there, and lists those that are', async () => {
  const gone = await driverFor(`echo '{"machine": null}'`)
  expect(await gone.status('m-1', never)).toBeNull()
  const driver = await driverFor(
    `echo '{"machines": [{"name": "m-1", "state": "running"}, {"name": "b", "state": "ended"}]}'`,
  )
  expect((await driver.list(never)).map(({ name, state }) => `${name} ${state}`)).toEqual(['m-1 running', 'b ended'])
  await (await driverFor('exit 0')).delete('m-1', never)
})

describe('an answer counts as none', () => {
  test.each([
    ['that is empty', ''],
    ['that is no JSON', 'echo "ok: running"'],
    ['of another form', `echo '{"state": "running"}'`],
    ['with another state', `echo '{"machine": {"name": "m-1", "state": "on fire"}}'`],
    ['about another machine', `echo '{"machine": {"name": "m-2", "state": "running"}}'`],
    [
      'with a URL that is none',
      `echo '{"machine": {"name": "m-1", "state": "running", "app_url": "file:///etc/passwd"}}'`,
    ],
    [
      'with user info in its URL',
      `echo '{"machine": {"name": "m-1", "state": "running", "app_url": "http://a:b@c/"}}'`,
    ],
    ['with a bad exit status', `echo '{"machine": {"name": "m-1", "state": "running"}}'; exit 1`],
    ['of a process that a signal ended', `echo '{"machine": {"name": "m-1", "state": "running"}}'; kill -9 $$`],
    ['that is endless', 'yes'],
  ])('%s', async (_name, body) => {
    const driver = await driverFor(body)
    await expect(driver.status('m-1', never)).rejects.toThrow()
    const failure = await driver.create('m-1', SPEC, never).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(Error)
    expect(failure).not.toBeInstanceOf(CreateRefused)
  })

  test('of an executable that is not there', async () => {
    const driver = commandDriver({ kind: 'command', path: join(folder, 'nothing'), timeoutMs: 1_000 }, systemClock)
    await expect(driver.list(never)).rejects.toThrow()
  })
})

test('the exit status 3 refuses a creation for good, and is no answer to other questions', async () => {
  const driver = await driverFor('exit 3')
  await expect(driver.create('m-1', SPEC, never)).rejects.toBeInstanceOf(CreateRefused)
  const failure = await driver.status('m-1', never).catch((error: unknown) => error)
  expect(failure).not.toBeInstanceOf(CreateRefused)
})

test('one that hangs is killed at its deadline, with what it has started', async () => {
  const clock = new TurnedClock()
  const pidFile = join(folder, 'pids')
  const driver = await driverFor(`sleep 1000 & echo "$! $$" > ${pidFile}; echo '{"machine": null}'; wait`, clock)
  const asking = driver.status('m-1', never).catch((error: unknown) => error)
  const pids = await linesOf(pidFile)
  await clock.turn(60_000)
  expect(String(await asking)).toContain('took too long')
  for (const pid of pids) await gone(pid)
})

test('one whose work is given up is killed too', async () => {
  const pidFile = join(folder, 'given-up')
  const driver = await driverFor(`echo "$$" > ${pidFile}; sleep 1000`)
  const giving = new AbortController()
  const asking = driver.list(giving.signal).catch((error: unknown) => error)
  const pids = await linesOf(pidFile)
  giving.abort()
  expect(await asking).toBeInstanceOf(Error)
  for (const pid of pids) await gone(pid)
})

/** Waits for the file that a script writes its process ids into. */
async function linesOf(path: string): Promise<number[]> {
  for (;;) {
    const text = await readFile(path, 'utf8').catch(() => '')
    if (text.endsWith('\n')) return text.trim().split(' ').map(Number)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Resolves when no such process runs. */
async function gone(pid: number): Promise<void> {
  for (;;) {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
    if (stat === null || stat.includes(') Z ')) return
    await new Promise((resolve) => setImmediate(resolve))
  }
}
