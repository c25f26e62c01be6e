/** Stablecoin deposits through the whole gateway, with a real chain behind two nodes. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../test/acceptance/ask.ts'
import type { TestKey } from '../../../test/customer.ts'
import { openTestChain, type TestChain } from '../../../test/deposits/anvil.ts'
import { TEST_XPUB } from '../../../test/deposits/depositHouse.ts'
import { NODE_SECRET, openRpcProxy, type RpcProxy } from '../../../test/deposits/rpcProxy.ts'
import { deployToken, type TestToken } from '../../../test/deposits/token.ts'
import { Validator } from '../../../test/packages.ts'
import { until } from '../../../test/until.ts'
import { systemClock } from '../../infra/clock.ts'
import { freezeOrganization } from '../freezes/freezes.ts'

const DEPOSITS = '/billing/deposits'

let chain: TestChain
let usdc: TestToken
let nodes: RpcProxy[]
let gateway: AskedGateway
beforeAll(async () => {
  chain = await openTestChain(1)
  usdc = await deployToken(chain.url, 'USDC')
  const usdt = await deployToken(chain.url, 'USDT')
  nodes = [openRpcProxy(chain.url), openRpcProxy(chain.url)]
  const settings = `
rate_limit: { requests_per_second: 10000, burst: 100000 }
deposits:
  xpub: ${TEST_XPUB}
  min_deposit_cents: 500
  chains:
    ethereum: { rpc_url_envs: [NODE_ONE, NODE_TWO], poll_seconds: 1, tokens: { usdc: '${usdc.address}', usdt: '${usdt.address}' } }
    polygon: { rpc_urls: ['http://127.0.0.1:1'], poll_seconds: 1 }
`
  const environment = { NODE_ONE: nodes[0]?.url ?? '', NODE_TWO: nodes[1]?.url ?? '' }
  gateway = await openAskedGateway({ settings, environment })
})
afterAll(async () => {
  await gateway.close()
  for (const node of nodes) node.close()
  await chain.close()
})

interface Shown {
  readonly deposit_id: string
  readonly status: string
  readonly pay_address: string
  readonly pay_amount: string
}

const create = (key: TestKey, body: unknown) => gateway.ask({ path: `${DEPOSITS}/crypto`, key, body })
const GOOD = { amount_cents: 2_500, chain: 'ethereum', asset: 'usdc' }

async function created(key: TestKey, body: object = GOOD): Promise<Shown> {
  let made: Shown | null = null
  await until(async () => {
    const { status, json } = await create(key, body)
    if (status !== 503) {
      expect({ status, json }).toMatchObject({ status: 201 })
      made = json as Shown
    }
    return made !== null
  })
  return made as unknown as Shown
}

const shown = async (key: TestKey, id: string) => (await gateway.ask({ path: `${DEPOSITS}/${id}`, key })).json as Shown

test('a deposit is begun, paid, seen, settled and credited once, and shown as the interface has it', async () => {
  const key = await gateway.customer({ cents: 0, scopes: 'billing:write' })
  const deposit = await created(key)
  expect(deposit).toMatchObject({
    status: 'created',
    chain: 'ethereum',
    asset: 'usdc',
    amount_usd_cents: 2_500,
    pay_amount: '25.00',
  })
  expect(deposit.pay_address).toMatch(/^0x[0-9a-fA-F]{40}$/)
  expect(deposit).not.toContainAnyKeys(['tx_hash', 'credited_cents'])
  const hash = await usdc.send(deposit.pay_address, 25_000_000n)
  await until(async () => (await shown(key, deposit.deposit_id)).status === 'detected')
  await chain.mine(4)
  await until(async () => (await shown(key, deposit.deposit_id)).status === 'credited')
  expect(await shown(key, deposit.deposit_id)).toMatchObject({ tx_hash: hash, credited_cents: 2_500 })
  const balance = await gateway.ask({ path: '/billing/balance', key })
  expect(balance.json).toMatchObject({ balance_cents: 2_500 })
  const entries = await gateway.database.query<{ source: string }>(
    'select source from ledger_entries where organization_id = $1::uuid',
    [key.organizationId],
  )
  expect(entries).toEqual([{ source: `deposit:ethereum:${hash}:0` }])
  const { json } = await gateway.ask({ path: DEPOSITS, key })
  expect(json).toEqual({ deposits: [await shown(key, deposit.deposit_id)], min_deposit_cents: 500 })
})

test('the newest 50 are listed, the newest first', async () => {
  const key = await gateway.customer({ cents: 0 })
  const { deposit_id: first } = await created(key)
  await gateway.database.query(
    `insert into deposits (id, organization_id, status, chain, asset, amount_cents, address, address_index, key_fingerprint,
       created_at, expires_at, watched_until)
     select overlay(d.id::text placing lpad(to_hex(n), 12, '0') from 25)::uuid, organization_id, 'expired', chain, asset, amount_cents,
       overlay(address placing lpad(to_hex(n), 8, '0') from 3), n, 'listed', created_at, expires_at, watched_until
     from deposits d, generate_series(1, 60) n where d.id = $1::uuid`,
    [first],
  )
  const { json } = await gateway.ask({ path: DEPOSITS, key })
  const ids = (json as { deposits: Shown[] }).deposits.map(({ deposit_id: id }) => id)
  expect(ids).toHaveLength(50)
  expect(ids).toEqual(ids.toSorted().reverse())
})

test.each([
  ['serverless:write', 403, 403],
  ['billing:read', 200, 403],
  ['billing:write', 200, 201],
])('a key with %s reads with %d and begins with %d', async (scopes, read, begin) => {
  await created(await gateway.customer({ cents: 0 }))
  const key = await gateway.customer({ cents: 0, scopes })
  expect((await gateway.ask({ path: DEPOSITS, key })).status).toBe(read)
  expect((await create(key, GOOD)).status).toBe(begin)
})

test('the description has the three operations, and is valid', async () => {
  const { paths } = gateway.description
  const operations = Object.entries(paths)
    .filter(([path]) => path.startsWith(DEPOSITS))
    .flatMap(([, item]) => Object.values(item).map(({ operationId }) => operationId))
  expect(operations).toEqual(['listCryptoDeposits', 'createCryptoDeposit', 'getCryptoDeposit'])
  expect(await new Validator().validate({ ...gateway.description })).toEqual({ valid: true })
})

test('another organization’s deposit answers as one that does not exist', async () => {
  const [one, other] = [await gateway.customer({ cents: 0 }), await gateway.customer({ cents: 0 })]
  const { deposit_id: id } = await created(one)
  const unknown = '01993f8e-5c7b-7e0b-8a35-c1f2d3e4a5b6'
  const answers = await Promise.all(
    [id, unknown, 'nonsense'].map((each) => gateway.ask({ path: `${DEPOSITS}/${each}`, key: other })),
  )
  for (const { status, json } of answers)
    expect({ status, json }).toMatchObject({ status: 404, json: { code: 'deposit-not-found' } })
  expect((await gateway.ask({ path: DEPOSITS, key: other })).json).toEqual({ deposits: [], min_deposit_cents: 500 })
})

test.each([
  ['below the minimum', { ...GOOD, amount_cents: 499 }, 400, 'validation-error'],
  ['not whole', { ...GOOD, amount_cents: 500.5 }, 400, 'validation-error'],
  ['a text', { ...GOOD, amount_cents: '500' }, 400, 'validation-error'],
  ['without a chain', { asset: 'usdc', amount_cents: 500 }, 400, 'validation-error'],
  ['a chain that is a number', { ...GOOD, chain: 1 }, 400, 'validation-error'],
  ['an asset that is null', { ...GOOD, asset: null }, 400, 'validation-error'],
  ['without an amount', { chain: 'ethereum', asset: 'usdc' }, 400, 'validation-error'],
  ['a field too many', { ...GOOD, memo: 'x' }, 400, 'validation-error'],
  ['no object', '[]', 400, 'validation-error'],
  ['no JSON', '{', 400, 'invalid-request'],
  [
    'a chain that the interface has and this server has not',
    { ...GOOD, chain: 'solana' },
    400,
    'unsupported-chain-asset',
  ],
  ['usdt on base', { ...GOOD, chain: 'base', asset: 'usdt' }, 400, 'unsupported-chain-asset'],
  ['a chain that nobody knows', { ...GOOD, chain: 'dogecoin' }, 400, 'unsupported-chain-asset'],
  ['a chain whose node is away', { ...GOOD, chain: 'polygon' }, 503, 'payment-source-unavailable'],
])('refused: %s', async (_, body, status, code) => {
  const answer = await create(await gateway.customer({ cents: 0 }), body)
  expect(answer).toMatchObject({ status, json: { code } })
})

test('with the same Idempotency-Key one deposit is made, with one entry of the audit log, and its answer given again', async () => {
  const key = await gateway.customer({ cents: 0 })
  await created(key)
  const question = { path: `${DEPOSITS}/crypto`, key, body: GOOD, headers: { 'Idempotency-Key': 'one' } }
  const [first, second] = [await gateway.ask(question), await gateway.ask(question)]
  expect(first.status).toBe(201)
  expect(second.json).toEqual(first.json)
  const { deposit_id: id } = first.json as Shown
  const entries = await gateway.database.query(
    'select action, actor_kind, actor_id, before, after from audit_entries where organization_id = $1 and subject_id = $2',
    [key.organizationId, id],
  )
  const actor = { actor_kind: 'api_key', actor_id: expect.any(String) }
  expect(entries).toEqual([{ action: 'deposit.created', ...actor, before: null, after: GOOD }])
})

test('ten deposits may be open at once, also where more are asked for at once (B12)', async () => {
  const key = await gateway.customer({ cents: 0 })
  await created(key)
  const answers = await Promise.all(Array.from({ length: 14 }, () => create(key, GOOD)))
  const statuses = answers.map(({ status }) => status)
  expect([statuses.filter((each) => each === 201).length, statuses.filter((each) => each === 429).length]).toEqual([
    9, 5,
  ])
})

test('a frozen organization begins no deposit (B11)', async () => {
  const key = await gateway.customer({ cents: 0 })
  await created(key)
  const freeze = { reason: 'operator', cause: '', note: null, frozenAtMs: systemClock.now() } as const
  await freezeOrganization(gateway.database, key.organizationId, freeze)
  expect(await create(key, GOOD)).toMatchObject({ status: 403, json: { code: 'org-frozen' } })
})

test('the address of a node is in no log', () => {
  expect(gateway.logs.length).toBeGreaterThan(0)
  expect(gateway.logs.join('\n')).not.toContain(NODE_SECRET)
})
