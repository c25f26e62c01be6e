/** Instances through the whole gateway, with the driver of an operator's command: routes, operations, keys, usage and the burn. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import type { CustomerOptions, TestKey } from '../customer.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import { SETTINGS } from './catalog.ts'
import type { Answer } from './description.ts'
import { type Expected, expectRefusal } from './refusals.ts'
import { openRental, operationOf, RENTED, type Rental } from './rental.ts'

const LIMIT = '/billing/spending-limit'

let rental: Rental
let gateway: AskedGateway
beforeAll(async () => {
  rental = await openRental()
  gateway = rental.gateway
})
afterAll(() => rental.close())

const create: Rental['create'] = (...asked) => rental.create(...asked)
const ended: Rental['ended'] = (...asked) => rental.ended(...asked)

const expectProblem = (answer: Answer, expected: Expected) => expectRefusal(answer, 'A', expected)

test('the description with instances is valid and has their routes', async () => {
  expect(await new Validator().validate({ ...gateway.description })).toEqual({ valid: true })
  const paths = Object.keys(gateway.description.paths).filter((path) => /instances|operations/.test(path))
  expect(paths.sort()).toEqual(['/instances', '/instances/offerings', '/instances/{id}', '/operations/{id}'])
})

test('without a host for apps there are no passwords of apps, which is said to a key that may make some (B7)', async () => {
  const path = `/instances/${crypto.randomUUID()}/app-password`
  const may = await gateway.customer({ scopes: 'instances:write' })
  const off = await gateway.ask({ method: 'POST', path, key: may.key })
  expectProblem(off, { status: 404, code: 'not_found', says: /not enabled on this server/ })
  const mayNot = await gateway.customer({ scopes: 'instances:read' })
  const refused = await gateway.ask({ method: 'POST', path, key: mayNot.key })
  expectProblem(refused, { status: 403, code: 'insufficient_scope' })
})

test('an instance is rented, answers, is billed and deleted', async () => {
  const { key, organizationId } = await gateway.customer({ cents: 10_000 })
  const offered = await gateway.ask({ path: '/instances/offerings', key })
  expect(offered.json).toMatchObject({
    gpu_types: expect.arrayContaining([expect.objectContaining({ name: 'a100', price_per_hour_cents: 120 })]),
    apps: expect.arrayContaining([expect.objectContaining({ name: 'server' })]),
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
  // Nothing answers there any more.
  const over = await gateway.ask({ path: `/instances/${id}`, key })
  expect(over.json).toMatchObject({ app_url: null, terminal_url: null })
  expect((await ended(key, operationOf(deleting).operation_id)).json).toMatchObject({
    kind: 'instance.delete',
    state: 'succeeded',
  })
  expect((await gateway.ask({ path: `/instances/${id}`, key })).json).toMatchObject({
    state: 'terminated',
    reason: 'deleted',
  })
  expect((await gateway.ask({ path: '/billing/balance', key })).json).toMatchObject({ burn_cents_per_hour: 0 })
  expect(await rental.machines()).toEqual([])
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
  const first = await create(key, RENTED, 'again')
  const second = await create(key, RENTED, 'again')
  expect(second.text).toBe(first.text)
  expect(second.headers.get('Idempotency-Replayed')).toBe('true')
  expect(second.headers.get('Operation-Id')).toBe(first.headers.get('Operation-Id'))
  const listed = await gateway.ask({ path: '/instances', key })
  expect((listed.json as { data: unknown[] }).data).toHaveLength(1)
  const other = { ...RENTED, disk_gb: 11 }
  expectProblem(await create(key, other, 'again'), { status: 422, code: 'idempotency_mismatch' })
})

/** A request for an instance that is refused, and what is so when it comes. */
interface Refused extends Expected {
  readonly body?: object
  readonly customer?: CustomerOptions
  /** Makes it so. Returns how it ends. */
  readonly given?: (key: TestKey) => Promise<() => Promise<unknown>>
}

const NOTHING = () => Promise.resolve()

/** The seven codes that only a creation has (E13), and those rows of the table of errors that only it produces. */
const refusals: [string, Refused][] = [
  ['a GPU type that is not offered', { body: { gpu_type: 'b200' }, status: 422, code: 'invalid_gpu_type' }],
  [
    'more GPUs than an instance may have',
    { body: { gpu_count: 5 }, status: 422, code: 'invalid_gpu_type', says: /at most 4 GPUs/ },
  ],
  ['more disk than is offered', { body: { disk_gb: 101 }, status: 422, code: 'disk_exceeds_offering' }],
  [
    'more disk than is left',
    {
      body: { app: 'tool', gpu_type: 't4', gpu_count: 1, disk_gb: 51, model: null, expected_price_per_hour_cents: 60 },
      async given() {
        const other = await gateway.customer({ cents: 10_000 })
        const body = { app: 'tool', gpu_type: 't4', disk_gb: 100, expected_price_per_hour_cents: 60 }
        const { operation_id: operationId, resource_id: id } = operationOf(await create(other, body))
        await ended(other, operationId)
        return () => gateway.ask({ method: 'DELETE', path: `/instances/${id}`, key: other })
      },
      ...{ status: 503, code: 'disk_unavailable', retryAfter: 60 },
    },
  ],
  [
    'a model that is too large for the GPUs',
    { body: { model: 'huge' }, status: 422, code: 'model_too_large', says: /needs 500 GB .* would have 160 GB/ },
  ],
  [
    'GPUs that are too small for the app',
    { body: { gpu_type: 't4', gpu_count: 1 }, status: 422, code: 'gpu_vram_too_small', says: /needs 40 GB .* 16 GB/ },
  ],
  [
    'another price',
    {
      body: { expected_price_per_hour_cents: 239 },
      ...{ status: 409, code: 'price_changed', shouldRetry: 'false', says: /240 cents/ },
    },
  ],
  [
    'an account that can not be read',
    {
      async given() {
        await gateway.database.query('alter table accounts rename to gone')
        return () => gateway.database.query('alter table gone rename to accounts')
      },
      ...{ status: 503, code: 'creator_check_unavailable', retryAfter: 1 },
    },
  ],
  ['a model that there is not', { body: { model: 'large' }, status: 404, code: 'model_not_found' }],
  ['too little money', { customer: { cents: 10 }, status: 402, code: 'insufficient_balance' }],
  [
    'an hour that costs more than the cap of new accounts',
    {
      body: { gpu_type: 'h200', gpu_count: 1, expected_price_per_hour_cents: 2_100 },
      customer: { standing: 'new', cents: 10_000 },
      ...{ status: 402, code: 'quota_exceeded', says: /cap of new accounts/ },
    },
  ],
  [
    'a spending limit',
    {
      customer: { admin: true },
      async given(key) {
        const limit = { monthly_limit_dollars: 100, daily_limit_dollars: 0.1 }
        expect((await gateway.ask({ method: 'PUT', path: LIMIT, key, body: limit })).status).toBe(200)
        return NOTHING
      },
      ...{ status: 402, code: 'quota_exceeded', says: /daily spending limit/ },
    },
  ],
  ['a field that there is not', { body: { region: 'eu' }, status: 422, code: 'validation_failed' }],
  [
    'a body without a price',
    { body: { expected_price_per_hour_cents: undefined }, status: 422, code: 'validation_failed' },
  ],
]

describe('refused', () => {
  test.each(refusals)('%s', async (_name, { body, customer, given, ...expected }) => {
    const key = await gateway.customer({ cents: 10_000, ...customer })
    const end = (await given?.(key)) ?? NOTHING
    const answer = await create(key, { ...RENTED, ...body }).finally(end)
    expectProblem(answer, expected)
    expect((await gateway.ask({ path: '/instances', key })).json).toMatchObject({ data: [] })
  })

  test('a creation without an Idempotency-Key, and without the scope', async () => {
    const { key } = await gateway.customer({ cents: 10_000 })
    expectProblem(await gateway.ask({ path: '/instances', key, body: RENTED }), {
      status: 422,
      code: 'validation_failed',
    })
    const reader = await gateway.customer({ scopes: 'read_only' })
    expectProblem(await create(reader.key), { status: 403, code: 'insufficient_scope' })
    expect((await gateway.ask({ path: '/instances', key: reader.key })).status).toBe(200)
    const caller = await gateway.customer({ scopes: 'serverless:write' })
    for (const path of ['/instances', '/instances/offerings']) {
      expectProblem(await gateway.ask({ path, key: caller.key }), { status: 403, code: 'insufficient_scope' })
    }
  })

  test('a driver that refuses fails the operation, in our words', async () => {
    await rental.refuse(true)
    const { key } = await gateway.customer({ cents: 10_000 })
    const { operation_id: operationId, resource_id: id } = operationOf(await create(key))
    const { json } = await ended(key, operationId)
    expect(json).toMatchObject({ state: 'failed', result: null, error: { code: 'operation_failed' } })
    expect((await gateway.ask({ path: `/instances/${id}`, key })).json).toMatchObject({
      state: 'failed',
      reason: 'create_refused',
    })
    await rental.refuse(false)
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
