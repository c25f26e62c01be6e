/** Apps on this host outlive a gateway that is killed: the real server, its own database, apps that really run. Needs root. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../../src/infra/clock.ts'
import { filesOf } from '../../src/instances/drivers/process/spec.ts'
import { sleep } from '../../src/lib/time.ts'
import { askApp, basic } from '../appClient.ts'
import { freePort } from '../freePort.ts'
import { LISTENER_COMMAND, NO_MACHINES_HERE, onThisHost } from '../processMachines.ts'
import { startServer, type TestServer } from '../server.ts'

setDefaultTimeout(120_000)

describe.skipIf(NO_MACHINES_HERE !== null)(onThisHost('an app'), () => {
  let holder: string
  let directory: string
  let server: TestServer
  let port: number
  let key: string
  beforeAll(async () => {
    holder = await mkdtemp('/var/lib/tollgate-test-')
    await chmod(holder, 0o711)
    directory = join(holder, 'machines')
    port = await freePort()
    const uid = 1_700_000_000 + (process.pid % 1_000_000) * 10
    server = await startServer({
      settings: `instances:
  host: apps.localhost
  port: ${port}
  driver: { kind: process, directory: ${directory}, first_uid: ${uid}, machines: 3, memory_mb: 2000 }
  gpu_types: [{ name: none, vram_gb: 1, price_per_hour_cents: 100, disk_gb_max: 1 }]
  apps: [{ name: listener, command: [${LISTENER_COMMAND.join(', ')}, orphan], port: 8080 }]
`,
    })
    key = server.firstKey
  })
  afterAll(async () => {
    await server?.remove()
    await rm(holder, { recursive: true, force: true })
  })

  async function call(method: string, path: string, body?: object): Promise<Record<string, string>> {
    const answer = await fetch(`${server.url}${path}`, {
      method,
      headers: { Authorization: `Bearer ${key}`, 'Idempotency-Key': crypto.randomUUID() },
      ...(body && { body: JSON.stringify(body) }),
    })
    expect(answer.ok).toBe(true)
    return (await answer.json()) as Record<string, string>
  }

  async function until(id: string, state: string): Promise<void> {
    while ((await call('GET', `/instances/${id}`))['state'] !== state) await sleep(systemClock, 100)
  }

  test('outlives a killed gateway, is found by the next one, was started once, and ends with its deletion', async () => {
    const asked = { app: 'listener', gpu_type: 'none', expected_price_per_hour_cents: 100 }
    const id = (await call('POST', '/instances', asked))['resource_id'] ?? ''
    await until(id, 'running')
    const { password = '' } = await call('POST', `/instances/${id}/app-password`)
    const headers = { authorization: basic(password) }
    expect(await askApp(port, { id }, '/', headers, 'one')).toMatchObject({ status: 200, text: 'one' })
    await server.kill()
    server = await startServer({ dataDir: server.dataDir, ...(await sameSettings()) })
    expect(await askApp(port, { id }, '/', headers, 'two')).toMatchObject({ status: 200, text: 'two' })
    expect(await readFile(join(filesOf(directory, `tollgate-${id}`).home, 'starts'), 'utf8')).toBe('started\n')
    const dial = await askApp(port, { id }, `/read?path=${server.dataDir}`, headers)
    expect(JSON.parse(dial.text)['folder']).toMatch(/^E(ACCES|NOENT)$/)
    await call('DELETE', `/instances/${id}`)
    await until(id, 'terminated')
    expect(await askApp(port, { id }, '/', headers)).toMatchObject({ status: 401 })
    expect(await server.stop()).toBe(0)
  })

  async function sameSettings(): Promise<{ settings: string }> {
    return { settings: await readFile(join(server.dataDir, 'tollgate.yaml'), 'utf8') }
  }
})
