/** Several gateways of one start, for real: what one of them alone has, it has again after its death. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { askApp } from '../../test/appClient.ts'
import { writeMachineCommand } from '../../test/commandMachines.ts'
import { freePort } from '../../test/freePort.ts'
import { startRedis, type TestRedis } from '../../test/redis.ts'
import { startServer, type TestServer } from '../../test/server.ts'
import { until } from '../../test/until.ts'

let folder: string
let port: number
let redis: TestRedis
let server: TestServer
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-several-'))
  port = await freePort()
  redis = await startRedis()
  server = await startServer({
    environment: { TOLLGATE_PROCESSES: '2', REDIS_URL: redis.url },
    settings: `instances:
  host: apps.localhost
  port: ${port}
  driver: { kind: command, path: ${await writeMachineCommand(folder)}, timeout_seconds: 60 }
  gpu_types: [{ name: none, vram_gb: 1, price_per_hour_cents: 100, disk_gb_max: 1 }]
  apps: [{ name: app, image: none, port: 8080 }]
`,
  })
}, 120_000)
afterAll(async () => {
  await server?.remove()
  await redis?.kill()
  await rm(folder, { recursive: true })
}, 60_000)

/** The lines of the log with such a message. */
const lines = (message: string) =>
  server
    .errors()
    .split('\n')
    .filter((line) => line.includes(`"${message}"`)).length

/** The answer to a caller without a password: somebody listens at the port of apps. */
const appPort = () => askApp(port, { id: '0190b3b4-0000-7000-8000-000000000001' }, '/', {}).then(({ status }) => status)

/** The first of the processes, by the data directory among its words. */
async function firstProcess(): Promise<number> {
  for (const name of await readdir('/proc')) {
    const words = /^\d+$/.test(name) ? await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '') : ''
    if (words.includes(join(server.dataDir, 'processes/0'))) return Number(name)
  }
  throw new Error('the first process does not run')
}

test('the port of apps is opened again when the process that had it is killed', async () => {
  expect(await appPort()).toBe(401)
  expect(lines('serving')).toBe(2)
  process.kill(await firstProcess(), 'SIGKILL')
  await until(() => lines('serving') === 3)
  expect(await appPort()).toBe(401)
  expect(lines('apps of instances answer')).toBe(2)
  expect(await server.stop()).toBe(0)
}, 120_000)
