/** Instances through the whole gateway, with the driver of an operator's command: routes, operations, keys, usage and the burn. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import { systemClock } from '../../src/infra/clock.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { SETTINGS } from './catalog.ts'
import type { Answer } from './description.ts'
import { type Expected, expectRefusal } from './refusals.ts'

/** Machines are files of a folder; one whose name is in `broken` can't be made. */
const SCRIPT = (folder: string) => `#!/bin/sh
cd ${folder} || exit 1
name=$(sed 's/.*"name":"\\([^"]*\\)".*/\\1/')
machine() { echo "{\\"name\\":\\"$1\\",\\"state\\":\\"running\\",\\"app_url\\":\\"http://10.0.0.1/$1\\"}"; }
case $1 in
  create) [ -e refuse ] && exit 3; touch "$name.machine"; echo "{\\"machine\\":$(machine "$name")}" ;;
  status) if [ -e "$name.machine" ]; then echo "{\\"machine\\":$(machine "$name")}"; else echo '{"machine":null}'; fi ;;
  delete) rm -f "$name.machine" ;;
  list) echo '{"machines":[]}' ;;
esac
`

let folder: string
let gateway: AskedGateway
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-cloud-'))
  const path = join(folder, 'cloud')
  await writeFile(path, SCRIPT(folder))
  await chmod(path, 0o755)
  const settings = `${SETTINGS}
instances:
  driver: { kind: command, path: ${path} }
  gpu_types:
    - { name: a100, vram_gb: 80, count: 4, price_per_hour_cents: 120, disk_gb_max: 100 }
  apps:
    - { name: server, image: 'server:1', port: 8080, vram_gb_min: 40, models: [{ name: small, vram_gb: 20 }] }
`
  gateway = await openAskedGateway({ settings })
})
afterAll(async () => {
  await gateway.close()
  await rm(folder, { recursive: true })
})

const BODY = {
  app: 'server',
  gpu_type: 'a100',
  gpu_count: 2,
  disk_gb: 10,
  model: 'small',
  expected_price_per_hour_cents: 240,
}

function create(key: string, body: object = BODY, idempotencyKey: string = crypto.randomUUID()): Promise<Answer> {
  return gateway.ask({ path: '/instances', key, body, headers: { 'Idempotency-Key': idempotencyKey } })
}

/** Polls until an operation is over. */
async function ended(key: string, id: string): Promise<Answer> {
  for (;;) {
    const answer = await gateway.ask({ path: `/operations/${id}`, key })
    const { state } = answer.json as { state: string }
    if (state !== 'pending' && state !== 'in_progress') return answer
    await new Promise((resolve) => systemClock.after(20, () => resolve(null)))
  }
}

const expectProblem = (answer: Answer, expected: Expected) => expectRefusal(answer, 'A', expected)

const operationOf = (answer: Answer) => answer.json as { operation_id: string; resource_id: string }

test('the description with instances is valid and has their routes', async () => {
  expect(await new Validator().validate({ ...gateway.description })).toEqual({ valid: true })
  const paths = Object.keys(gateway.description.paths).filter((path) => /instances|operations/.test(path))
  expect(paths.sort()).toEqual(['/instances', '/instances/offerings', '/instances/{id}', '/operations/{id}'])
})

test('an instance is rented, answers, is billed and deleted', async () => {
  const { key, organizationId } = await gateway.customer({ cents: 10_000 })
  const offered = await gateway.ask({ path: '/instances/offerings', key })
  expect(offered.json).toMatchObject({
    gpu_types: [{ name: 'a100', price_per_hour_cents: 120 }],
    apps: [{ name: 'server' }],
  })
  const accepted = await create(key)
  expect(accepted.status).toBe(202)
  const { operation_id: operationId, resource_id: id } = operationOf(accepted)
  expect(accepted.headers.get('Operation-Id')).toBe(operationId)
  expect(accepted.json).toMatchObject({ kind: 'instance.create', state: 'pending', warnings: [] })
  const made = await ended(key, operationId)
  const appUrl = `http://10.0.0.1/tollgate-${id}`
  expect(made.json).toMatchObject({
    ...{ state: 'succeeded', error: null },
    result: { app_url: appUrl, terminal_url: null, app_basic_auth_user: null },
  })
  expect(made.json).not.toHaveProperty('warnings')
  const running = await gateway.ask({ path: `/instances/${id}`, key })
  expect(running.json).toMatchObject({ state: 'running', price_per_hour_cents: 240, gpu_count: 2, app_url: appUrl })
  const balance = await gateway.ask({ path: '/billing/balance', key })
  expect(balance.json).toMatchObject({ burn_cents_per_hour: 240 })
  const deleting = await gateway.ask({ method: 'DELETE', path: `/instances/${id}`, key })
  expect(deleting.status).toBe(202)
  expect((await ended(key, operationOf(deleting).operation_id)).json).toMatchObject({
    kind: 'instance.delete',
    state: 'succeeded',
  })
  expect((await gateway.ask({ path: `/instances/${id}`, key })).json).toMatchObject({
    state: 'terminated',
    reason: 'deleted',
  })
  expect((await gateway.ask({ path: '/billing/balance', key })).json).toMatchObject({ burn_cents_per_hour: 0 })
  expect(await readdir(folder)).toEqual(['cloud'])
  const listed = await gateway.ask({ path: '/instances', key })
  expect(listed.json).toMatchObject({ data: [{ id }], next_cursor: null })
  const [charged] = await gateway.database.query<{ seconds: bigint }>(
    `select coalesce(sum(instance_seconds * gpu_count), 0)::bigint as seconds from charges where organization_id = $1::uuid`,
    [organizationId],
  )
  for (const groupBy of ['instance_id', 'gpu_type']) {
    const usage = await gateway.ask({ path: `/usage?group_by=${groupBy}`, key })
    const { data } = usage.json as { data: { gpu_seconds: number; gpu_type: string; instance_id: string | null }[] }
    expect(data.reduce((sum, each) => sum + each.gpu_seconds, 0)).toBe(Number(charged?.seconds))
    for (const each of data) {
      expect(each).toMatchObject({ gpu_type: 'a100', instance_id: groupBy === 'instance_id' ? id : null })
    }
  }
})

test('a request that is sent again with its Idempotency-Key makes one instance, and gets the same bytes and Operation-Id', async () => {
  const { key } = await gateway.customer({ cents: 10_000 })
  const first = await create(key, BODY, 'again')
  const second = await create(key, BODY, 'again')
  expect(second.text).toBe(first.text)
  expect(second.headers.get('Idempotency-Replayed')).toBe('true')
  expect(second.headers.get('Operation-Id')).toBe(first.headers.get('Operation-Id'))
  const listed = await gateway.ask({ path: '/instances', key })
  expect((listed.json as { data: unknown[] }).data).toHaveLength(1)
  const other = { ...BODY, disk_gb: 11 }
  expectProblem(await create(key, other, 'again'), { status: 422, code: 'idempotency_mismatch' })
})

describe('refused', () => {
  test.each<[string, object, Expected]>([
    ['a GPU type that is not offered', { ...BODY, gpu_type: 'b200' }, { status: 422, code: 'invalid_gpu_type' }],
    ['more disk than is offered', { ...BODY, disk_gb: 101 }, { status: 422, code: 'disk_exceeds_offering' }],
    [
      'another price',
      { ...BODY, expected_price_per_hour_cents: 239 },
      { status: 409, code: 'price_changed', shouldRetry: 'false' },
    ],
    ['a model that there is not', { ...BODY, model: 'large' }, { status: 404, code: 'model_not_found' }],
    ['a field that there is not', { ...BODY, region: 'eu' }, { status: 422, code: 'validation_failed' }],
    ['a body without a price', { app: 'server', gpu_type: 'a100' }, { status: 422, code: 'validation_failed' }],
  ])('%s', async (_name, body, expected) => {
    const { key } = await gateway.customer({ cents: 10_000 })
    expectProblem(await create(key, body), expected)
  })

  test('a creation without an Idempotency-Key, without credit, and without the scope', async () => {
    const { key } = await gateway.customer({ cents: 10_000 })
    expectProblem(await gateway.ask({ path: '/instances', key, body: BODY }), {
      status: 422,
      code: 'validation_failed',
    })
    const poor = await gateway.customer({ cents: 10 })
    expectProblem(await create(poor.key), { status: 402, code: 'insufficient_balance' })
    const reader = await gateway.customer({ scopes: 'read_only' })
    expectProblem(await create(reader.key), { status: 403, code: 'insufficient_scope' })
    expect((await gateway.ask({ path: '/instances', key: reader.key })).status).toBe(200)
    const caller = await gateway.customer({ scopes: 'serverless:write' })
    for (const path of ['/instances', '/instances/offerings']) {
      expectProblem(await gateway.ask({ path, key: caller.key }), { status: 403, code: 'insufficient_scope' })
    }
  })

  test('a driver that refuses fails the operation, in our words', async () => {
    await writeFile(join(folder, 'refuse'), '')
    const { key } = await gateway.customer({ cents: 10_000 })
    const { operation_id: operationId, resource_id: id } = operationOf(await create(key))
    const { json } = await ended(key, operationId)
    expect(json).toMatchObject({ state: 'failed', result: null, error: { code: 'operation_failed' } })
    expect((await gateway.ask({ path: `/instances/${id}`, key })).json).toMatchObject({
      state: 'failed',
      reason: 'create_refused',
    })
    await rm(join(folder, 'refuse'))
  })

  test("another key's operation, and another organization's instance, are not there", async () => {
    const own = await gateway.customer({ cents: 10_000 })
    const { operation_id: operationId, resource_id: id } = operationOf(await create(own.key))
    const stranger = await gateway.customer()
    for (const path of [`/operations/${operationId}`, `/instances/${id}`, '/operations/x', '/instances/x']) {
      expectProblem(await gateway.ask({ path, key: stranger.key }), { status: 404, code: 'not_found' })
    }
    const deleting = await gateway.ask({ method: 'DELETE', path: `/instances/${id}`, key: stranger.key })
    expectProblem(deleting, { status: 404, code: 'not_found' })
    // Another key of the organization sees the instance, and not the operation.
    await gateway.database.query('update api_keys set organization_id = $1::uuid where id = $2::uuid', [
      own.organizationId,
      stranger.id,
    ])
    const colleague = await gateway.customer()
    await gateway.database.query('update api_keys set organization_id = $1::uuid where id = $2::uuid', [
      own.organizationId,
      colleague.id,
    ])
    expectProblem(await gateway.ask({ path: `/operations/${operationId}`, key: colleague.key }), {
      ...{ status: 404, code: 'not_found' },
    })
    expect((await gateway.ask({ path: `/instances/${id}`, key: colleague.key })).status).toBe(200)
  })
})

test('a server without the settings tells what still runs: its customer by the burn, its operator by the log', async () => {
  const { key, organizationId } = await gateway.customer({ cents: 10_000 })
  await ended(key, operationOf(await create(key)).operation_id)
  const plain = await openAskedGateway({ settings: SETTINGS, beside: gateway })
  try {
    expect((await plain.ask({ path: '/billing/balance', key })).json).toMatchObject({ burn_cents_per_hour: 240 })
    const [count] = await gateway.database.query<{ live: bigint }>(
      "select count(*) as live from instances where state in ('creating', 'running')",
    )
    const errors = plain.logs.map((line) => JSON.parse(line)).filter(({ level }) => level === 'error' || level >= 50)
    expect(errors).toMatchObject([{ instances: Number(count?.live), msg: expect.stringContaining('instances') }])
    expect(JSON.stringify(errors)).not.toContain(organizationId)
  } finally {
    await plain.close()
  }
})

test('without the settings the routes are unknown paths, and no description has them', async () => {
  const plain = await openAskedGateway({ settings: SETTINGS, beside: gateway })
  try {
    const { key } = await plain.customer()
    for (const path of ['/instances', '/instances/offerings', '/operations/01900000-0000-7000-8000-000000000000']) {
      expect((await plain.ask({ path, key })).status).toBe(404)
    }
    expect(Object.keys(plain.description.paths).filter((path) => /instances|operations/.test(path))).toEqual([])
    expect((await plain.ask({ path: '/billing/balance', key })).json).toMatchObject({ burn_cents_per_hour: 0 })
  } finally {
    await plain.close()
  }
})
