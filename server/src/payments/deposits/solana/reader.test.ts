/** Nodes of Solana that are away, behind, pruned or wrong. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { base58 } from '@scure/base'
import { type DepositHouse, openDepositHouse } from '../../../../test/deposits/depositHouse.ts'
import { type Falsify, NODE_SECRET, openRpcProxy, type RpcProxy } from '../../../../test/deposits/rpcProxy.ts'
import { newWallets, SolanaTestChain } from '../../../../test/deposits/solanaChain.ts'
import { makeSolanaToken, type SolanaTestToken } from '../../../../test/deposits/solanaToken.ts'
import { systemClock } from '../../../infra/clock.ts'
import { systemFetch } from '../../../infra/fetch.ts'
import { Secret } from '../../../lib/secret.ts'
import { ChainFailure } from '../chains/chain.ts'
import type { OnRpcError } from '../chains/rpc.ts'
import { createSolanaReader } from './reader.ts'

const DOLLAR = 1_000_000n

let chain: SolanaTestChain
let usdc: SolanaTestToken
let nodes: [RpcProxy, RpcProxy]
let house: DepositHouse
beforeAll(async () => {
  chain = await SolanaTestChain.open()
  usdc = await makeSolanaToken(chain)
  nodes = [openRpcProxy(chain.url), openRpcProxy(chain.url)]
  const urls = nodes.map(({ url }) => url)
  house = await openDepositHouse({ chain: 'solana', nodes: urls, tokens: { usdc: usdc.address } })
  await house.importAddresses(await newWallets(40))
  await house.look()
})
const honest: Falsify = (_, result) => result
beforeEach(() => {
  for (const node of nodes) Object.assign(node, { isUp: true, falsify: honest, refuses: () => false })
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
  chain.mine(3)
  return { id, address, organizationId }
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

interface Told {
  readonly meta: { readonly postTokenBalances: readonly object[] }
}

/** All that a transaction left in accounts, told to be another amount. */
const inflated: Falsify = ({ method }, result) => {
  if (method !== 'getTransaction') return result
  const { meta, ...rest } = result as Told
  const postTokenBalances = meta.postTokenBalances.map((each) => ({ ...each, uiTokenAmount: { amount: '99000000' } }))
  return { ...rest, meta: { ...meta, postTokenBalances } }
}

/** Tells the accounts that a transaction took tokens from as somebody else's. */
const disguised: Falsify = ({ method }, result) => {
  if (method !== 'getTransaction') return result
  const { meta, ...rest } = result as { readonly meta: { readonly preTokenBalances: readonly object[] } }
  const preTokenBalances = meta.preTokenBalances.map((each) => ({ ...each, owner: usdc.address }))
  return { ...rest, meta: { ...meta, preTokenBalances } }
}

/** Tells of one account more that a transaction took a little from. */
const joined: Falsify = ({ method }, result) => {
  if (method !== 'getTransaction') return result
  const { meta, ...rest } = result as { readonly meta: { readonly preTokenBalances: readonly object[] } }
  const more = { ...meta.preTokenBalances[0], accountIndex: 0, owner: usdc.address, uiTokenAmount: { amount: '1' } }
  return { ...rest, meta: { ...meta, preTokenBalances: [...meta.preTokenBalances, more] } }
}

test.each<[string, Falsify, string]>([
  ['no payment at all', ({ method }, result) => (method === 'getSignaturesForAddress' ? [] : result), 'disagree'],
  ['another amount', inflated, 'disagree'],
  ['another sender', disguised, 'disagree'],
  ['one sender more', joined, 'disagree'],
  [
    'a success that was a failure',
    ({ method }, result) =>
      method === 'getTransaction' ? { ...(result as Told), meta: { ...(result as Told).meta, err: 'Failed' } } : result,
    'disagree',
  ],
  [
    'another block in the place of the final one',
    ({ method }, result) =>
      method === 'getLatestBlockhash' ? { ...(result as object), value: { blockhash: '2'.repeat(44) } } : result,
    'disagree',
  ],
  [
    'a transaction that it does not have',
    ({ method }, result) => (method === 'getTransaction' ? null : result),
    'malformed',
  ],
  [
    'another transaction than it was asked for',
    ({ method }, result) => (method === 'getTransaction' ? { ...(result as object), slot: 1 } : result),
    'malformed',
  ],
  [
    'nonsense',
    ({ method }, result) => (method === 'getSignaturesForAddress' ? [{ signature: 'x' }] : result),
    'malformed',
  ],
])(
  'while one of two nodes tells of %s nothing is credited; once they agree it is, once',
  async (_, falsify, trouble) => {
    const { id, organizationId } = await paid()
    nodes[1].falsify = falsify
    expect(await troubleOf(house.watch())).toBe(trouble)
    await house.screen()
    expect(await house.credits(organizationId)).toEqual([])
    nodes[1].falsify = honest
    await house.look()
    expect(await statusOf(id)).toBe('credited')
    expect(await house.credits(organizationId)).toEqual([500_000_000n])
  },
)

test('a node that is behind the final block does not answer for it, and nothing is passed over', async () => {
  const { id } = await paid()
  const [first] = nodes
  // Its list is of a backend that is not as far as the one that told the final block.
  for (const node of nodes) node.refuses = ({ method }) => node === first && method === 'getSignaturesForAddress'
  expect(await troubleOf(house.watch())).toBe('refused')
  expect(await statusOf(id)).toBe('created')
  first.refuses = () => false
  await house.look()
  expect(await statusOf(id)).toBe('credited')
})

test('a node is told which slot its list must reach', async () => {
  const { address } = await paid()
  const reader = readerOf({ nodes: [nodes[0]] })
  expect(await troubleOf(reader.finalTransfers([address], { from: 0, to: chain.finalSlot + 1 }))).toBe('refused')
  expect(await reader.finalTransfers([address], { from: 0, to: chain.finalSlot })).toHaveLength(1)
})

test('a node that keeps nothing from so long ago does not answer for it', async () => {
  const { address } = await paid()
  nodes[0].falsify = ({ method }, result) => (method === 'getFirstAvailableBlock' ? 5 : result)
  const reader = readerOf({ nodes: [nodes[0]] })
  expect(await troubleOf(reader.finalTransfers([address], { from: 0, to: chain.finalSlot }))).toBe('refused')
})

test('of three nodes two that agree suffice, whichever is wrong or away', async () => {
  const three = [...nodes, openRpcProxy(chain.url)]
  const reader = readerOf({ nodes: three })
  try {
    for (const bad of three) {
      for (const node of three) Object.assign(node, { isUp: true, falsify: honest })
      const { id } = await paid()
      if (bad === three[0]) bad.isUp = false
      else bad.falsify = ({ method }, result) => (method === 'getSignaturesForAddress' ? [] : result)
      await house.watch(reader)
      await house.screen()
      expect(await statusOf(id)).toBe('credited')
    }
  } finally {
    three[2]?.close()
  }
})

function readerOf(over: {
  readonly nodes?: readonly RpcProxy[]
  readonly mint?: string
  readonly onError?: OnRpcError
}) {
  const rpcUrls = (over.nodes ?? [nodes[0]]).map(({ url }) => new Secret(url))
  const settings = { rpcUrls, tokens: { usdc: over.mint ?? usdc.address } }
  const onError = over.onError ?? (() => undefined)
  return createSolanaReader({ settings, clock: systemClock, send: systemFetch, onError })
}

test('a node that alone tells of something else is counted by its place, and both where two disagree', async () => {
  const { address } = await paid()
  const three = [...nodes, openRpcProxy(chain.url)]
  const counted: string[] = []
  const onError: OnRpcError = (node, trouble) => void counted.push(`${node} ${trouble}`)
  nodes[0].falsify = inflated
  try {
    const reader = readerOf({ nodes: three, onError })
    const { number: to } = await reader.finalBlock()
    await reader.finalTransfers([address], { from: 0, to })
    expect(counted).toEqual(['1 disagree'])
    const pair = readerOf({ nodes, onError })
    await pair.finalBlock()
    expect(await troubleOf(pair.finalTransfers([address], { from: 0, to }))).toBe('disagree')
    expect(counted).toEqual(['1 disagree', '1 disagree', '2 disagree'])
    nodes[1].falsify = ({ method }, result) =>
      method === 'getLatestBlockhash' ? { ...(result as object), value: { blockhash: '2'.repeat(44) } } : result
    await readerOf({ nodes: three, onError }).finalBlock()
    expect(counted.slice(3)).toEqual(['2 disagree'])
  } finally {
    three[2]?.close()
  }
})

test('a head that one node alone has is none, and what is final is credited all the same', async () => {
  const { id } = await paid()
  nodes[0].falsify = ({ method }, result) => (method === 'getSlot' ? Number.MAX_SAFE_INTEGER : result)
  expect((await house.watch()).headBlock).toBe(chain.slot)
  await house.screen()
  expect(await statusOf(id)).toBe('credited')
})

test('a mint of other decimals, no mint, and nodes of another chain are refused', async () => {
  const nine = await makeSolanaToken(chain, 9)
  const [wallet = ''] = await newWallets(1)
  expect(await troubleOf(readerOf({ mint: nine.address }).check())).toBe('wrong')
  expect(await troubleOf(readerOf({ mint: wallet }).check())).toBe('wrong')
  nodes[0].falsify = ({ method }, result) => (method === 'getGenesisHash' ? '4'.repeat(44) : result)
  expect(await troubleOf(readerOf({}).check())).toBe('wrong')
  nodes[0].falsify = honest
  expect(await troubleOf(readerOf({}).check())).toBeNull()
})

test('an account that its owner has given away does not count', async () => {
  const { address } = await paid()
  const [stranger = ''] = await newWallets(1)
  nodes[0].falsify = ({ method }, result) => {
    if (method !== 'getTransaction') return result
    const { meta, ...rest } = result as Told
    const postTokenBalances = meta.postTokenBalances.map((each) => ({ ...each, owner: stranger }))
    return { ...rest, meta: { ...meta, postTokenBalances } }
  }
  expect(await readerOf({}).finalTransfers([address], { from: 0, to: chain.finalSlot })).toEqual([])
})

test('an address has a history once it, or its token account, is in any transaction, also before that is final', async () => {
  const [fresh = '', used = ''] = await newWallets(2)
  await usdc.send(used, 1n)
  const reader = readerOf({})
  expect([await reader.hasHistory(fresh), await reader.hasHistory(used)]).toEqual([false, true])
})

test('an address whose transactions the nodes do not keep any more has a history as long as it, or its token account, is there', async () => {
  const [fresh = '', used = ''] = await newWallets(2)
  await usdc.send(used, 1n)
  nodes[0].falsify = ({ method }, result) => (method === 'getSignaturesForAddress' ? [] : result)
  const reader = readerOf({})
  expect([await reader.hasHistory(fresh), await reader.hasHistory(used)]).toEqual([false, true])
})

test('two nodes must agree on a balance, and one of an account that was given away is none', async () => {
  const { address } = await paid()
  const [stranger = ''] = await newWallets(1)
  const told =
    (change: (data: Buffer) => Buffer): Falsify =>
    (question, result) => {
      const { value } = result as { value: { data: [string, string] } | null }
      if (question.method !== 'getAccountInfo' || value === null) return result
      const data = [change(Buffer.from(value.data[0], 'base64')).toString('base64'), 'base64']
      return { ...(result as object), value: { ...value, data } }
    }
  const balance = () => readerOf({ nodes }).balanceOf(usdc.address, address)
  expect(await balance()).toBe(5n * DOLLAR)
  nodes[1].falsify = told((data) => Buffer.concat([data.subarray(0, 64), Buffer.alloc(8, 1), data.subarray(72)]))
  expect(await troubleOf(balance())).toBe('disagree')
  const owned = (data: Buffer) => Buffer.concat([data.subarray(0, 32), base58.decode(stranger), data.subarray(64)])
  for (const node of nodes) node.falsify = told(owned)
  expect(await balance()).toBe(0n)
  const minted = (data: Buffer) => Buffer.concat([base58.decode(stranger), data.subarray(32)])
  for (const node of nodes) node.falsify = told(minted)
  expect(await troubleOf(balance())).toBe('malformed')
})

test('the first slot to read from again is one that two nodes keep, and that they keep for a while yet', async () => {
  const keeps =
    (slot: number): Falsify =>
    ({ method }, result) =>
      method === 'getFirstAvailableBlock' ? slot : result
  nodes[0].falsify = keeps(5_000)
  nodes[1].falsify = keeps(7_000)
  expect(await readerOf({}).firstBlock?.()).toBe(6_800)
  expect(await readerOf({ nodes }).firstBlock?.()).toBe(8_800)
  nodes[1].isUp = false
  expect(await troubleOf(readerOf({ nodes }).firstBlock?.() ?? Promise.resolve())).toBe('away')
})

test('a node that sends far more rows than it was asked for, or a transaction with far more balances, is refused', async () => {
  const { address } = await paid()
  const read = () => readerOf({}).finalTransfers([address], { from: 0, to: chain.finalSlot })
  const many = (rows: unknown): unknown[] => Array.from({ length: 150_000 }, () => (rows as unknown[])[0])
  nodes[0].falsify = ({ method }, result) => (method === 'getSignaturesForAddress' ? many(result) : result)
  expect(await troubleOf(read())).toBe('too_large')
  nodes[0].falsify = ({ method }, result) => {
    if (method !== 'getTransaction') return result
    const { meta, ...rest } = result as Told
    const [first] = meta.postTokenBalances
    const preTokenBalances = Array.from({ length: 3_000 }, () => ({ ...first, accountIndex: 1 }))
    const postTokenBalances = Array.from({ length: 3_000 }, () => ({ ...first, accountIndex: 2 }))
    return { ...rest, meta: { ...meta, preTokenBalances, postTokenBalances } }
  }
  expect(await troubleOf(read())).toBe('malformed')
})

test('nodes that disagree about a history can’t tell', async () => {
  const [wallet = ''] = await newWallets(1)
  nodes[1].falsify = ({ method }, result) =>
    method === 'getSignaturesForAddress' ? [{ signature: '2'.repeat(88), slot: 1, err: null }] : result
  expect(await troubleOf(readerOf({ nodes }).hasHistory(wallet))).toBe('disagree')
})

test('the address of a node is in no log', () => {
  expect(house.logs.join('\n')).not.toContain(NODE_SECRET)
})
