/** Passwords of apps and their Idempotency-Keys: an answer that was kept is given again, whatever has happened to its password. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { HOUR_MS } from '../../src/lib/time.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { SETTINGS } from './catalog.ts'
import type { Answer } from './description.ts'
import { expectRefusal } from './refusals.ts'

/** Its machines are made for ever. */
const SCRIPT = `#!/bin/sh
name=$(sed 's/.*"name":"\\([^"]*\\)".*/\\1/')
case $1 in
  create | status) echo "{\\"machine\\":{\\"name\\":\\"$name\\",\\"state\\":\\"creating\\"}}" ;;
  list) echo '{"machines":[]}' ;;
esac
`

let folder: string
let gateway: AskedGateway
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-cloud-'))
  const path = join(folder, 'cloud')
  await writeFile(path, SCRIPT)
  await chmod(path, 0o755)
  const settings = `${SETTINGS}
instances:
  host: apps.localhost
  port: 0
  driver: { kind: command, path: ${path} }
  gpu_types:
    - { name: a100, vram_gb: 80, price_per_hour_cents: 120, disk_gb_max: 100 }
  apps:
    - { name: server, image: 'server:1', port: 8080 }
`
  gateway = await openAskedGateway({ settings })
})
afterAll(async () => {
  await gateway.close()
  await rm(folder, { recursive: true })
})

const ask = (method: string, key: string, path: string, idempotencyKey: string, body?: object): Promise<Answer> =>
  gateway.ask({ method, path, key, ...(body && { body }), headers: { 'Idempotency-Key': idempotencyKey } })

async function rented() {
  const { key, organizationId } = await gateway.customer({ cents: 10_000 })
  const body = { app: 'server', gpu_type: 'a100', expected_price_per_hour_cents: 120 }
  const accepted = await ask('POST', key, '/instances', crypto.randomUUID(), body)
  const { resource_id: id } = accepted.json as { resource_id: string }
  return {
    ...{ key, id, organizationId },
    make: (word: string) => ask('POST', key, `/instances/${id}/app-password`, word),
    async hashOf() {
      const select = "select encode(app_password_hash, 'hex') as hash from instances where id = $1::uuid"
      return (await gateway.database.query<{ hash: string }>(select, [id]))[0]?.hash
    },
  }
}

const passwordOf = (answer: Answer) => (answer.json as { password: string }).password

test('a request that is sent again with its key gets the same password, and makes no other', async () => {
  const { make } = await rented()
  const first = await make('one')
  expect(first.status).toBe(201)
  const second = await make('one')
  expect(second.text).toBe(first.text)
  expect(second.headers.get('Idempotency-Replayed')).toBe('true')
})

test('a late repeat ends no password that was made since: it gets the first answer, byte for byte (D2)', async () => {
  const { make, hashOf } = await rented()
  const first = await make('one')
  const newer = await make('two')
  const again = await make('one')
  expect(again.status).toBe(201)
  expect(again.headers.get('Idempotency-Replayed')).toBe('true')
  expect(again.text).toBe(first.text)
  expect((await make('two')).text).toBe(newer.text)
  expect(await hashOf()).toBe(createHash('sha256').update(passwordOf(newer)).digest('hex'))
})

test('a repeat after the end of the instance gets the first answer too', async () => {
  const { make, key, id } = await rented()
  const { text } = await make('one')
  expect((await ask('DELETE', key, `/instances/${id}`, crypto.randomUUID())).status).toBe(202)
  const again = await make('one')
  expect([again.status, again.text]).toEqual([201, text])
  expectRefusal(await make('two'), 'A', { status: 404, code: 'not_found' })
})

test('beyond the budget of changes the password stays as it is, and the key of the refused request is free (K7)', async () => {
  const { make, organizationId } = await rented()
  const first = await make('one')
  const spent = 'update audit_budgets set spent_until = $2::timestamptz where organization_id = $1::uuid'
  await gateway.database.query(spent, [organizationId, new Date(Date.now() + HOUR_MS + 9_000).toISOString()])
  expect((await make('two')).status).toBe(429)
  expect((await make('one')).text).toBe(first.text)
  await gateway.database.query(spent, [organizationId, new Date().toISOString()])
  expect((await make('two')).status).toBe(201)
})

test.each([
  ['POST', '/app-password', 201],
  ['DELETE', '', 202],
] as const)('%s /instances/{id}%s takes no fields, and a body without any (§9)', async (method, rest, status) => {
  const { key, id } = await rented()
  const send = (body?: object) => gateway.ask({ method, path: `/instances/${id}${rest}`, key, ...(body && { body }) })
  const refused = await send({ password: 'mine', force: true })
  expectRefusal(refused, 'A', { status: 422, code: 'validation_failed', says: /'password' and 'force'/ })
  expect((await send({})).status).toBe(status)
  expect((await send()).status).toBe(status)
})

test('a password that could not be made leaves its key free', async () => {
  const { key } = await rented()
  const path = `/instances/${crypto.randomUUID()}/app-password`
  for (let asked = 0; asked < 2; asked += 1) {
    expectRefusal(await ask('POST', key, path, 'one'), 'A', { status: 404, code: 'not_found' })
  }
})
