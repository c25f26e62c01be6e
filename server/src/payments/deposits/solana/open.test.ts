/** A start with Solana and mints that differ from the settings. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type DepositHouse, openDepositHouse } from '../../../../test/deposits/depositHouse.ts'
import { NODE_SECRET, openRpcProxy, type RpcProxy } from '../../../../test/deposits/rpcProxy.ts'
import { newWallets, SolanaTestChain } from '../../../../test/deposits/solanaChain.ts'
import { makeSolanaToken } from '../../../../test/deposits/solanaToken.ts'
import { createNoter } from '../../../identity/audit/note.ts'
import { createLog } from '../../../infra/log.ts'
import { createMetrics } from '../../../infra/metrics.ts'
import { openDeposits } from '../open.ts'

let chain: SolanaTestChain
let node: RpcProxy
let house: DepositHouse
beforeAll(async () => {
  chain = await SolanaTestChain.open()
  node = openRpcProxy(chain.url)
  house = await openDepositHouse({ chain: 'solana', nodes: [node.url], tokens: {} })
})
afterAll(async () => {
  await house.close()
  node.close()
  await chain.close()
})

function open(usdc: string, logs: string[] = [], metrics = createMetrics()) {
  const { database, clock, random } = house.dependencies()
  const log = createLog('warn', { write: (line) => void logs.push(line) })
  const chains = house.settings.chains.map((each) => ({ ...each, tokens: { usdc } }))
  const noter = createNoter({ clock, random, clientAddress: (peer) => peer })
  const settings = { ...house.settings, xpub: null, chains }
  return openDeposits({ database, reads: database, clock, random, log, metrics, noter, settings })
}

test('a mint of 9 decimals is no start, and the message says why without the address of the node', async () => {
  const { address } = await makeSolanaToken(chain, 9)
  const error = await open(address).catch((failure: unknown) => String(failure))
  expect(error).toContain('the mint of usdc on solana counts in 9 decimals, not 6; correct the settings')
  expect(error).not.toContain(NODE_SECRET)
})

test('with its nodes away Solana is no reason not to start, and the metrics say so', async () => {
  const { address } = await makeSolanaToken(chain)
  node.isUp = false
  const logs: string[] = []
  const metrics = createMetrics()
  const opened = await open(address, logs, metrics)
  node.isUp = true
  expect(opened.routes).toHaveLength(3)
  expect(logs.join()).toContain('could not be checked at the start')
  expect(logs.join()).not.toContain(NODE_SECRET)
  await house.importAddresses(await newWallets(2))
  await opened.periodicTasks[0]?.run()
  expect(logs.join()).toContain('the pool is running short of addresses')
  metrics.show(opened.metrics)
  const page = await metrics.text(null)
  expect(page).toContain('tollgate_deposit_chain_up{chain="solana"} 0')
  expect(page).toContain('tollgate_deposit_pool_free_addresses{chain="solana"} 2')
  expect(page).toContain('tollgate_deposit_rpc_errors_total{chain="solana",node="1",trouble="away"} 1')
})
