/** Apps that really run on this host, rented and reached through the whole gateway. Needs root. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import { systemClock } from '../../src/infra/clock.ts'
import { processesOf } from '../../src/instances/drivers/process/processTable.ts'
import { filesOf } from '../../src/instances/drivers/process/spec.ts'
import { type AppAnswer, askApp, basic, openAppSocket } from '../appClient.ts'
import { LISTENER_COMMAND, NO_MACHINES_HERE, onThisHost } from '../processMachines.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { SETTINGS } from './catalog.ts'
import type { Answer } from './description.ts'

let holder: string
let directory: string
let gateway: AskedGateway
let port: number

const settings = () => `${SETTINGS}
instances:
  host: apps.localhost
  port: 0
  driver: { kind: process, directory: ${directory}, first_uid: ${1_600_000_000 + (process.pid % 1_000_000) * 10}, machines: 5, memory_mb: 2000 }
  gpu_types:
    - { name: none, vram_gb: 1, price_per_hour_cents: 3600, disk_gb_max: 1 }
  apps:
    - { name: listener, command: [${LISTENER_COMMAND.join(', ')}, '{model}'], port: 8080, models: [{ name: orphan, vram_gb: 1 }, { name: '; touch /tmp/x $(id)', vram_gb: 1 }] }
`

interface Rented {
  readonly id: string
  readonly key: string
  readonly organizationId: string
  readonly appUrl: string
}

const post = (key: string, path: string, body?: object) =>
  gateway.ask({ method: 'POST', path, key, ...(body && { body }), headers: { 'Idempotency-Key': crypto.randomUUID() } })

/** Asks until an answer is as it is to be. */
async function until(key: string, path: string, isGood: (json: Record<string, unknown>) => boolean): Promise<Answer> {
  for (;;) {
    const answer = await gateway.ask({ path, key })
    if (isGood(answer.json as Record<string, unknown>)) return answer
    await new Promise((resolve) => systemClock.after(50, () => resolve(null)))
  }
}

async function rent(model: string): Promise<Rented> {
  const { key, organizationId } = await gateway.customer({ cents: 10_000 })
  const body = { app: 'listener', gpu_type: 'none', model, name: 'mine', expected_price_per_hour_cents: 3600 }
  const accepted = await post(key, '/instances', body)
  expect(accepted.status).toBe(202)
  const { operation_id: operation, resource_id: id } = accepted.json as Record<string, string>
  const made = await until(key, `/operations/${operation}`, ({ completed_at }) => completed_at !== null)
  expect(made.json).toMatchObject({
    state: 'succeeded',
    result: { app_url: `http://${id}.apps.localhost/`, terminal_url: null, app_basic_auth_user: 'tollgate' },
  })
  return { id: `${id}`, key, organizationId, appUrl: `http://${id}.apps.localhost/` }
}

async function newPassword({ key, id }: Rented): Promise<string> {
  const made = await post(key, `/instances/${id}/app-password`)
  expect(made.status).toBe(201)
  return (made.json as { password: string }).password
}

/** A WebSocket to an app. */
const openSocket = (app: Rented, headers: Record<string, string>) => openAppSocket(port, app, headers)

describe.skipIf(NO_MACHINES_HERE !== null)(onThisHost('an app'), () => {
  let rented: Rented
  let password: string
  let authorization: string

  beforeAll(async () => {
    holder = await mkdtemp('/var/lib/tollgate-test-')
    await Bun.$`chmod 711 ${holder}`.quiet()
    directory = join(holder, 'machines')
    gateway = await openAskedGateway({ settings: settings() })
    const line = gateway.logs.find((each) => each.includes('apps of instances answer'))
    port = (JSON.parse(line ?? '') as { port: number }).port
    rented = await rent('orphan')
    password = await newPassword(rented)
    authorization = basic(password)
  })
  afterAll(async () => {
    await gateway.close()
    await rm(holder, { recursive: true, force: true })
  })

  test('the description with the password of apps is valid', async () => {
    expect(await new Validator().validate({ ...gateway.description })).toEqual({ valid: true })
    expect(Object.keys(gateway.description.paths)).toContain('/instances/{id}/app-password')
  })

  test('answers at its host with its password, and to nobody without', async () => {
    expect(await askApp(port, rented, '/', { authorization }, 'hello')).toMatchObject({ status: 200, text: 'hello' })
    expect(await askApp(port, rented, '/', {})).toMatchObject({ status: 401 })
    expect(await askApp(port, rented, '/', { authorization: basic('wrong') })).toMatchObject({ status: 401 })
    expect(await askApp(port, rented, '/', { authorization: `Bearer ${rented.key}` })).toMatchObject({ status: 401 })
  })

  test('answers at no other host, and none of our pages answers at its own', async () => {
    for (const host of ['apps.localhost', 'gateway.test', `x.${rented.id}.apps.localhost`, '127.0.0.1']) {
      expect(await askApp(port, rented, '/', { authorization, host })).toMatchObject({ status: 404 })
    }
    for (const path of ['/v1/health', '/manage/openapi.json', '/account']) {
      expect(await askApp(port, rented, path, { authorization, host: 'gateway.test' })).toMatchObject({ status: 404 })
      // The app's own answer: it gives back what it is sent.
      expect(await askApp(port, rented, path, { authorization }, 'mine')).toMatchObject({ text: 'mine' })
    }
  })

  test('never sees our cookies, our keys or its own password', async () => {
    const cookie = 'tollgate_session=secret; __Host-tollgate_session=secret; theirs=1'
    const answer = await askApp(port, rented, '/headers', { authorization, cookie, 'x-csrf-token': 'secret' })
    expect(answer.headers['set-cookie']).toEqual(['a=1; Path=/'])
    const seen = JSON.parse(answer.text)
    expect(seen).toMatchObject({ cookie: 'theirs=1', host: `${rented.id}.apps.localhost` })
    expect(answer.text).not.toContain('secret')
    expect(seen).not.toHaveProperty('authorization')
    const { echo, socket } = await openSocket(rented, { Authorization: authorization, Cookie: cookie })
    const upgrade = JSON.parse(await echo('headers'))
    expect(upgrade).toMatchObject({ cookie: 'theirs=1' })
    expect(upgrade).not.toHaveProperty('authorization')
    socket.close()
  })

  test('takes WebSockets, and a large body as it comes', async () => {
    const { echo, socket } = await openSocket(rented, { Authorization: authorization })
    expect(await echo('hello')).toBe('hello')
    expect(await echo('y'.repeat(200_000))).toBe('y'.repeat(200_000))
    socket.close()
    const body = 'z'.repeat(20_000_000)
    expect((await askApp(port, rented, '/', { authorization }, body)).text.length).toBe(body.length)
    await expect(openSocket(rented, { Authorization: basic('wrong') })).rejects.toBeDefined()
    await expect(
      openSocket(rented, { Authorization: authorization, Origin: 'https://evil.test' }),
    ).rejects.toBeDefined()
  })

  test('can neither read the data directory nor reach the database, the gateway or the port of apps', async () => {
    const look = async (path: string) => JSON.parse((await askApp(port, rented, path, { authorization })).text)
    expect(await look(`/read?path=${gateway.dataDirectory}`)).toMatchObject({
      folder: expect.stringMatching(/^E(ACCES|NOENT)$/),
    })
    const { hostname, port: databasePort, searchParams } = new URL(gateway.databaseUrl)
    const places = [`host=${hostname}&port=${databasePort || 5432}`, `host=127.0.0.1&port=${port}`]
    const socketFolder = searchParams.get('host')
    if (socketFolder !== null) places.push(`path=${socketFolder}/.s.PGSQL.${databasePort || 5432}`)
    for (const place of places) expect((await look(`/dial?${place}`)).dialled).not.toBe('open')
  })

  test("another organization's is not there", async () => {
    const { key } = await gateway.customer({ cents: 10_000 })
    const [others, none] = await Promise.all(
      [rented.id, crypto.randomUUID()].map((id) => post(key, `/instances/${id}/app-password`)),
    )
    expect(others?.status).toBe(404)
    expect({ ...(others?.json as object), request_id: '' }).toEqual({ ...(none?.json as object), request_id: '' })
    const mine = { authorization: basic('mine') }
    const [atTheirs, atNone] = await Promise.all(
      [rented.id, crypto.randomUUID()].map((id) => askApp(port, { id }, '/', mine)),
    )
    expect({ ...atTheirs, headers: null }).toEqual({ ...atNone, headers: null } as AppAnswer & { headers: null })
    expect(await askApp(port, rented, '/', { authorization })).toMatchObject({ status: 200 })
  })

  test('a key that may only read makes no password', async () => {
    const { key } = await gateway.customer({ scopes: 'read_only' })
    expect((await post(key, `/instances/${rented.id}/app-password`)).status).toBe(403)
  })

  test('a new password ends the old one, and only its hash is kept', async () => {
    const { closed } = await openSocket(rented, { Authorization: authorization })
    const next = await newPassword(rented)
    expect(next).not.toBe(password)
    expect(await askApp(port, rented, '/', { authorization })).toMatchObject({ status: 401 })
    expect(await askApp(port, rented, '/', { authorization: basic(next) })).toMatchObject({ status: 200 })
    await closed
    const [row] = await gateway.database.query<{ text: string }>(
      'select (i.*)::text as text from instances i where id = $1::uuid',
      [rented.id],
    )
    expect(row?.text).not.toContain(next)
    expect(gateway.logs.join('')).not.toContain(next)
    const noted = await gateway.database.query<{ text: string }>(
      'select (e.*)::text as text from audit_entries e where organization_id = $1::uuid',
      [rented.organizationId],
    )
    const made = noted.filter(({ text }) => text.includes('instance.app_password_made'))
    expect(made).toHaveLength(2)
    expect(made.map(({ text }) => text).join('')).not.toContain(next)
    authorization = basic(next)
  })

  test('is billed by the second, ends with all of its processes when it is deleted, and answers no more', async () => {
    const spec = JSON.parse(await readFile(filesOf(directory, `tollgate-${rented.id}`).spec, 'utf8'))
    expect((await processesOf(spec.uid)).length).toBeGreaterThanOrEqual(4)
    const shown = (await gateway.ask({ path: `/instances/${rented.id}`, key: rented.key })).json as Record<
      string,
      string
    >
    const deleted = await gateway.ask({ method: 'DELETE', path: `/instances/${rented.id}`, key: rented.key })
    const over = await until(rented.key, `/instances/${rented.id}`, ({ state }) => state === 'terminated')
    const { ended_at: endedAt } = over.json as Record<string, string>
    expect(deleted.status).toBe(202)
    expect(await processesOf(spec.uid)).toEqual([])
    expect(await readdir(directory)).not.toContain(`tollgate-${rented.id}`)
    expect(await askApp(port, rented, '/', { authorization })).toMatchObject({ status: 401 })
    const [charged] = await gateway.database.query<{ seconds: bigint }>(
      'select sum(instance_seconds)::bigint as seconds from charges where instance_id = $1::uuid',
      [rented.id],
    )
    const lifeSeconds = (Date.parse(endedAt ?? '') - Date.parse(shown['created_at'] ?? '')) / 1_000
    expect(Math.abs(Number(charged?.seconds) - lifeSeconds)).toBeLessThanOrEqual(1)
    expect((await post(rented.key, `/instances/${rented.id}/app-password`)).status).toBe(404)
  })

  test('gets a hostile value as one word', async () => {
    const hostile = await rent('; touch /tmp/x $(id)')
    const headers = { authorization: basic(await newPassword(hostile)) }
    const self = JSON.parse((await askApp(port, hostile, '/self', headers)).text)
    expect(self.argv).toEqual(['; touch /tmp/x $(id)'])
    await gateway.ask({ method: 'DELETE', path: `/instances/${hostile.id}`, key: hostile.key })
    await until(hostile.key, `/instances/${hostile.id}`, ({ state }) => state === 'terminated')
  })
})
