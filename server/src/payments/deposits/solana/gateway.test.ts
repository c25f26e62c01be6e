/** Deposits on Solana through the whole gateway, without an extended public key and with two nodes. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../../test/acceptance/ask.ts'
import type { TestKey } from '../../../../test/customer.ts'
import { NODE_SECRET, openRpcProxy, type RpcProxy } from '../../../../test/deposits/rpcProxy.ts'
import { newWallets, SolanaTestChain } from '../../../../test/deposits/solanaChain.ts'
import { makeSolanaToken, type SolanaTestToken } from '../../../../test/deposits/solanaToken.ts'
import { until } from '../../../../test/until.ts'
import { systemClock } from '../../../infra/clock.ts'
import { systemRandom } from '../../../infra/random.ts'
import { importAddresses } from '../pool/import.ts'
import { faultOfSolanaWallet } from './keys.ts'

const DEPOSITS = '/billing/deposits'
const POOL = 3

let chain: SolanaTestChain
let usdc: SolanaTestToken
let nodes: RpcProxy[]
let gateway: AskedGateway
let key: TestKey
beforeAll(async () => {
  chain = await SolanaTestChain.open()
  usdc = await makeSolanaToken(chain)
  const usdt = await makeSolanaToken(chain)
  nodes = [openRpcProxy(chain.url), openRpcProxy(chain.url)]
  const settings = `
rate_limit: { requests_per_second: 10000, burst: 100000 }
deposits:
  chains:
    solana: { rpc_url_envs: [NODE_ONE, NODE_TWO], poll_seconds: 1, tokens: { usdc: '${usdc.address}', usdt: '${usdt.address}' } }
`
  const environment = { NODE_ONE: nodes[0]?.url ?? '', NODE_TWO: nodes[1]?.url ?? '' }
  gateway = await openAskedGateway({ settings, environment })
  key = await gateway.customer({ cents: 0, scopes: 'billing:write' })
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
}

const create = () =>
  gateway.ask({ path: `${DEPOSITS}/crypto`, key, body: { amount_cents: 2_500, chain: 'solana', asset: 'usdc' } })
const shown = async (id: string) => (await gateway.ask({ path: `${DEPOSITS}/${id}`, key })).json as Shown

test('without an address in the pool a deposit is refused for now', async () => {
  expect(await create()).toMatchObject({ status: 503, json: { code: 'payment-source-unavailable' } })
})

test('a deposit is begun, paid and credited once, and shown as the interface has it', async () => {
  const wallets = await newWallets(POOL)
  const dependencies = { database: gateway.database, clock: systemClock, random: systemRandom() }
  await importAddresses({ ...dependencies, faultOf: faultOfSolanaWallet, hasHistory: async () => false }, 'solana', {
    text: wallets.join('\n'),
    replaces: false,
  })
  let deposit: Shown | null = null
  await until(async () => {
    const { status, json } = await create()
    deposit = status === 201 ? (json as Shown) : null
    return deposit !== null
  })
  const { deposit_id: id, pay_address: address } = deposit as unknown as Shown
  expect(deposit as unknown).toMatchObject({ status: 'created', chain: 'solana', asset: 'usdc', pay_amount: '25.00' })
  expect(wallets.map(String)).toContain(address)
  const { signature } = await usdc.send(address, 25_000_000n)
  chain.mine(3)
  await until(async () => (await shown(id)).status === 'credited')
  expect(await shown(id)).toMatchObject({ tx_hash: signature, credited_cents: 2_500 })
  const entries = await gateway.database.query<{ source: string }>(
    'select source from ledger_entries where organization_id = $1::uuid',
    [key.organizationId],
  )
  expect(entries).toEqual([{ source: expect.stringMatching(new RegExp(`^deposit:solana:${signature}:[0-9]+$`)) }])
  expect((await gateway.ask({ path: '/billing/balance', key })).json).toMatchObject({ balance_cents: 2_500 })
})

test('a chain of the EVM is not taken without an extended public key', async () => {
  const body = { amount_cents: 2_500, chain: 'base', asset: 'usdc' }
  const answer = await gateway.ask({ path: `${DEPOSITS}/crypto`, key, body })
  expect(answer).toMatchObject({ status: 400, json: { code: 'unsupported-chain-asset' } })
  expect(JSON.stringify(answer.json)).toContain('usdc on solana, usdt on solana')
})

test('the address of a node is in no log', () => {
  expect(gateway.logs.length).toBeGreaterThan(0)
  expect(gateway.logs.join('\n')).not.toContain(NODE_SECRET)
})
