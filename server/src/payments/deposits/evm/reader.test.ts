/** Nodes that are away, behind or wrong, before a real chain. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { openTestChain, type TestChain } from '../../../../test/deposits/anvil.ts'
import { type DepositHouse, openDepositHouse } from '../../../../test/deposits/depositHouse.ts'
import { type Falsify, NODE_SECRET, openRpcProxy, type RpcProxy } from '../../../../test/deposits/rpcProxy.ts'
import { deployToken, type TestToken } from '../../../../test/deposits/token.ts'
import { systemClock } from '../../../infra/clock.ts'
import { systemFetch } from '../../../infra/fetch.ts'
import { createLog } from '../../../infra/log.ts'
import { Secret } from '../../../lib/secret.ts'
import { ChainFailure } from '../chains/chain.ts'
import { createEvmReader } from './reader.ts'

const DOLLAR = 1_000_000n

let chain: TestChain
let usdc: TestToken
let nodes: [RpcProxy, RpcProxy]
let house: DepositHouse
beforeAll(async () => {
  chain = await openTestChain(42_161)
  usdc = await deployToken(chain.url, 'USDC')
  nodes = [openRpcProxy(chain.url), openRpcProxy(chain.url)]
  house = await openDepositHouse({
    chain: 'arbitrum',
    nodes: nodes.map(({ url }) => url),
    tokens: { usdc: usdc.address },
  })
  await house.look()
})
const honest: Falsify = (_, result) => result
beforeEach(() => {
  for (const node of nodes) Object.assign(node, { isUp: true, falsify: honest })
})
afterAll(async () => {
  await house.close()
  for (const node of nodes) node.close()
  await chain.close()
})

/** A deposit of $5 that is paid in a final block. Nobody has looked yet. */
async function paid() {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  await usdc.send(address, 5n * DOLLAR)
  await chain.mine(3)
  return { id, organizationId }
}

const statusOf = async (id: string) => (await house.find(id)).status

async function troubleOf(work: Promise<unknown>): Promise<unknown> {
  const error = await work.then(
    () => null,
    (failure: unknown) => failure,
  )
  expect(String(error)).not.toContain(NODE_SECRET)
  return error instanceof ChainFailure ? error.trouble : error
}

test('while one of two nodes is away nothing is settled, and it is once the node is back', async () => {
  const { id } = await paid()
  nodes[0].isUp = false
  expect(await troubleOf(house.watch())).toBe('away')
  expect(await statusOf(id)).toBe('created')
  nodes[0].isUp = true
  await house.look()
  expect(await statusOf(id)).toBe('credited')
})

test('while all nodes are away nothing is settled, and it is once they are back', async () => {
  const { id } = await paid()
  for (const node of nodes) node.isUp = false
  expect(await troubleOf(house.watch())).toBe('away')
  for (const node of nodes) node.isUp = true
  await house.look()
  expect(await statusOf(id)).toBe('credited')
})

test.each<[string, Falsify, string]>([
  [
    'a payment that the other has not',
    ({ method }, result) => {
      const [first] = method === 'eth_getLogs' ? (result as { transactionHash: string }[]) : []
      return first === undefined ? result : [first, { ...first, transactionHash: `0x${'ab'.repeat(32)}` }]
    },
    'disagree',
  ],
  ['no payment at all', ({ method }, result) => (method === 'eth_getLogs' ? [] : result), 'disagree'],
  [
    'another amount',
    ({ method }, result) =>
      method === 'eth_getLogs'
        ? (result as object[]).map((log) => ({ ...log, data: `0x${'0'.repeat(56)}7fffffff` }))
        : result,
    'disagree',
  ],
  [
    'another sender',
    ({ method }, result) =>
      method === 'eth_getLogs'
        ? (result as { topics: string[] }[]).map((log) => ({
            ...log,
            topics: log.topics.with(1, `0x${'0'.repeat(24)}${'5e'.repeat(20)}`),
          }))
        : result,
    'disagree',
  ],
  [
    'another block in the place of the final one',
    ({ method }, result) =>
      method === 'eth_getBlockByNumber' ? { ...(result as object), hash: `0x${'cd'.repeat(32)}` } : result,
    'disagree',
  ],
  ['nonsense', ({ method }, result) => (method === 'eth_getLogs' ? [{ address: 'x' }] : result), 'malformed'],
])(
  'while one of two nodes tells of %s nothing is credited; once they agree it is, once',
  async (_, falsify, trouble) => {
    const { id, organizationId } = await paid()
    nodes[1].falsify = falsify
    // A transfer that it makes up may also be refused for itself, as a transaction that nobody knows.
    expect([trouble, 'moved', 'malformed']).toContain(String(await troubleOf(house.watch())))
    await house.screen()
    expect(await house.credits(organizationId)).toEqual([])
    nodes[1].falsify = honest
    await house.look()
    expect(await statusOf(id)).toBe('credited')
    expect(await house.credits(organizationId)).toEqual([500_000_000n])
  },
)

test('a node that is behind holds nothing up for longer than it is behind', async () => {
  const { id } = await paid()
  const behind = await chain.ask('eth_getBlockByNumber', '0x2', false)
  nodes[1].falsify = ({ method, params }, result) =>
    method === 'eth_getBlockByNumber' && params[0] === 'finalized' ? behind : result
  await house.look()
  expect(await statusOf(id)).not.toBe('credited')
  nodes[1].falsify = honest
  await house.look()
  expect(await statusOf(id)).toBe('credited')
})

test('of three nodes two that agree suffice, whichever is wrong or away', async () => {
  const three = [...nodes, openRpcProxy(chain.url)]
  const rpcUrls = three.map(({ url }) => new Secret(url))
  const settings = { chain: 'arbitrum', rpcUrls, tokens: { usdc: usdc.address } } as const
  const reader = createEvmReader({
    settings,
    clock: systemClock,
    send: systemFetch,
    onError: () => {},
    log: createLog('fatal', { write: () => {} }),
  })
  try {
    for (const bad of three) {
      for (const node of three) Object.assign(node, { isUp: true, falsify: honest })
      const { id } = await paid()
      if (bad === three[0]) bad.isUp = false
      else bad.falsify = ({ method }, result) => (method === 'eth_getLogs' ? [] : result)
      await house.watch(reader)
      await house.screen()
      expect(await statusOf(id)).toBe('credited')
    }
  } finally {
    three[2]?.close()
  }
})

test('a node that refuses a long range is asked for its halves', async () => {
  const { id } = await paid()
  for (const node of nodes) {
    node.refuses = ({ method, params }) => {
      const [filter] = params as [{ fromBlock: string; toBlock: string }]
      return method === 'eth_getLogs' && Number(filter.toBlock) - Number(filter.fromBlock) > 1
    }
  }
  await house.look()
  for (const node of nodes) node.refuses = () => false
  expect(await statusOf(id)).toBe('credited')
})

function readerOf(over: { readonly chain?: 'base'; readonly token?: string; readonly logs?: string[] }) {
  const settings = {
    chain: over.chain ?? 'arbitrum',
    rpcUrls: [new Secret(nodes[0].url)],
    tokens: { usdc: over.token ?? usdc.address },
  } as const
  const log = createLog('warn', { write: (line) => void over.logs?.push(line) })
  return createEvmReader({ settings, clock: systemClock, send: systemFetch, onError: () => {}, log })
}

test('a token of other decimals, no token, and nodes of another chain are refused', async () => {
  const { address } = await deployToken(chain.url, 'USDC', 18)
  expect(await troubleOf(readerOf({ token: address }).check())).toBe('wrong')
  expect(await troubleOf(readerOf({ token: `0x${'1'.repeat(40)}` }).check())).toBe('wrong')
  expect(await troubleOf(readerOf({ chain: 'base' }).check())).toBe('wrong')
})

test('another symbol is only warned of, since the address counts', async () => {
  const { address } = await deployToken(chain.url, 'USD₮0')
  const logs: string[] = []
  await readerOf({ token: address, logs }).check()
  expect(logs.join()).toContain('another symbol')
})

test('the address of a node is in no log', () => {
  expect(house.logs.join('\n')).not.toContain(NODE_SECRET)
})
