/** A start whose apps on this host could not reach their folder. Needs root. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NO_MACHINES_HERE, onThisHost } from '../processMachines.ts'
import { typeCommand } from './terminal.ts'

// Starting a database, as it did before it refused, takes a busy machine a while.
setDefaultTimeout(60_000)

describe.skipIf(NO_MACHINES_HERE !== null)(onThisHost('a start with apps'), () => {
  let folder: string
  let closed: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
    // As the home of root is.
    closed = await mkdtemp('/var/lib/tollgate-test-')
  })
  afterAll(() => Promise.all([folder, closed].map((path) => rm(path, { recursive: true, force: true }))))

  test('in a folder that they can not reach ends with one line that says what to do, before a database is opened', async () => {
    await writeFile(
      join(folder, 'tollgate.yaml'),
      `instances:
  host: apps.localhost
  port: 0
  driver: { kind: process, directory: ${closed}/apps/machines, first_uid: ${1_300_000_000 + process.pid * 10} }
  gpu_types: [{ name: none, vram_gb: 1, price_per_hour_cents: 1, disk_gb_max: 1 }]
  apps: [{ name: sleeper, command: [/bin/sleep, '9'], port: 8080 }]
`,
    )
    const dataDirectory = join(folder, 'data')
    const words = ['serve', '--port', '0', '--admin-port', '0', '--data-dir', dataDirectory]
    const { code, stdout, stderr } = await typeCommand(words, { folder }).ended
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toBe(
      "tollgate: instances.driver: 'process' needs a folder that apps can reach, such as '/var/lib/tollgate-instances', " +
        `and users other than root can't enter ${closed}: name another 'directory'\n`,
    )
    expect(await readdir(folder)).toEqual(['tollgate.yaml'])
    expect(await readdir(closed)).toEqual([])
  })
})
