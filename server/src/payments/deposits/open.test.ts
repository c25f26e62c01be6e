/** A start with chains and tokens that differ from the settings. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openTestChain, type TestChain } from '../../../test/deposits/anvil.ts'
import { type DepositHouse, openDepositHouse, TEST_XPUB } from '../../../test/deposits/depositHouse.ts'
import { NODE_SECRET, openRpcProxy, type RpcProxy } from '../../../test/deposits/rpcProxy.ts'
import { deployToken } from '../../../test/deposits/token.ts'
import type { DepositSettings } from '../../catalog/settings.ts'
import { createNoter } from '../../identity/audit/note.ts'
import { createLog } from '../../infra/log.ts'
import { createMetrics } from '../../infra/metrics.ts'
import { Secret } from '../../lib/secret.ts'
import { openDeposits } from './open.ts'

let chain: TestChain
let node: RpcProxy
let house: DepositHouse
beforeAll(async () => {
  chain = await openTestChain(1)
  node = openRpcProxy(chain.url)
  house = await openDepositHouse({ chain: 'ethereum', nodes: [node.url], tokens: {} })
})
afterAll(async () => {
  await house.close()
  node.close()
  await chain.close()
})

function open(usdc: string, over: Partial<DepositSettings> = {}, logs: string[] = [], metrics = createMetrics()) {
  const { database, clock, random } = house.dependencies()
  const log = createLog('warn', { write: (line) => void logs.push(line) })
  const settings = { ...house.settings, xpub: TEST_XPUB, ...over }
  const chains = settings.chains.map((each) => ({ ...each, rpcUrls: [new Secret(node.url)], tokens: { usdc } }))
  const noter = createNoter({ clock, random, clientAddress: (peer) => peer })
  return openDeposits({
    database,
    reads: database,
    clock,
    random,
    log,
    metrics,
    noter,
    settings: { ...settings, chains },
  })
}

test('a token of 18 decimals is no start, and the message says why without the address of the node', async () => {
  const { address } = await deployToken(chain.url, 'USDC', 18)
  const error = await open(address).catch((failure: unknown) => String(failure))
  expect(error).toContain('the contract of usdc on ethereum counts in 18 decimals, not 6; correct the settings')
  expect(error).not.toContain(NODE_SECRET)
})

test('a key that is mistyped is no start', async () => {
  const { address } = await deployToken(chain.url, 'USDC')
  await expect(open(address, { xpub: 'xpub1' })).rejects.toThrow('is not an extended public key')
})

test('with its nodes away a chain is no reason not to start', async () => {
  const { address } = await deployToken(chain.url, 'USDC')
  node.isUp = false
  const logs: string[] = []
  const opened = await open(address, {}, logs)
  node.isUp = true
  expect(opened.routes).toHaveLength(3)
  expect(logs.join()).toContain('could not be checked at the start')
  expect(logs.join()).not.toContain(NODE_SECRET)
})

test('the metrics say where each chain stands, how many deposits there are, and which node did not answer', async () => {
  const { address } = await deployToken(chain.url, 'USDC')
  const metrics = createMetrics()
  node.isUp = false
  const opened = await open(address, {}, [], metrics)
  node.isUp = true
  await house.create(await house.customer(), 500)
  await opened.periodicTasks[0]?.run()
  metrics.show(opened.metrics)
  const page = await metrics.text(null)
  expect(page).toContain('tollgate_deposit_chain_up{chain="ethereum"} 0')
  expect(page).toContain('tollgate_deposits{status="created"} 1')
  expect(page).toContain('tollgate_deposit_rpc_errors_total{chain="ethereum",node="1",trouble="away"} 1')
})
