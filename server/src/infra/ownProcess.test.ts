import { expect, test } from 'bun:test'
import { readlink } from 'node:fs/promises'
import { until } from '../../test/until.ts'
import { startOwnProcess } from './ownProcess.ts'

const isLinux = process.platform === 'linux'

test.skipIf(!isLinux)('SIGHUP does not end a process that has only just been started', async () => {
  const child = startOwnProcess(['serve', '--help'], process.env)
  const ended = new Promise((resolve) => child.once('exit', (...how) => resolve(how)))
  const own = await readlink('/proc/self/exe')
  // The shell has handed over; nothing of the program has run yet.
  await until(async () => (await readlink(`/proc/${child.pid}/exe`)) === own)
  child.kill('SIGHUP')
  expect(await ended).toEqual([0, null])
})
