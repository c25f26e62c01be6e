/** Nodes whose chain is flooded with events, and nodes that are wrong, slow or behind: what counts is read all the same. */

import { expect, test } from 'bun:test'
import { FAKE_TOKEN, type FakeEvent, FakeEvmNode, readFakeNodes } from '../../../../test/deposits/fakeEvmNodes.ts'
import { SECOND_MS } from '../../../lib/time.ts'
import { ChainFailure } from '../chains/chain.ts'
import { logs } from './shapes.ts'

const ADDRESS = `0x${'a1'.repeat(20)}`
const OTHER_ADDRESS = `0x${'b2'.repeat(20)}`
const ANYBODYS_TOKEN = `0x${'fa'.repeat(20)}`
const RANGE = { from: 1, to: 100 }

const paid = (over: Partial<FakeEvent> = {}): FakeEvent => ({ block: 50, to: ADDRESS, units: 5_000_000n, ...over })

/** More events than are held at once. */
const flood = () => Array.from({ length: 5_001 }, () => paid({ units: 1n, transaction: `0x${'7'.repeat(64)}` }))

/** Nodes that all see these events. */
function open(count: number, events: readonly FakeEvent[]) {
  const nodes = Array.from({ length: count }, () => Object.assign(new FakeEvmNode(), { events }))
  const at = (index: number) => nodes[index] ?? new FakeEvmNode()
  return { nodes, at, ...readFakeNodes(nodes) }
}

async function unitsOf(reader: ReturnType<typeof open>['reader'], addresses = [ADDRESS], range = RANGE) {
  await reader.finalBlock()
  return (await reader.finalTransfers(addresses, range)).map(({ units }) => units)
}

async function troubleOf(work: Promise<unknown>): Promise<unknown> {
  const error = await work.then(
    () => null,
    (failure: unknown) => failure,
  )
  return error instanceof ChainFailure ? error.trouble : error
}

test('a node is asked for events of its own tokens alone, however many of others there are', async () => {
  const flood = Array.from({ length: 1_000 }, () => paid({ contract: ANYBODYS_TOKEN }))
  const { reader, nodes } = open(2, [...flood, paid()])
  for (const node of nodes) node.refuses = ({ address }) => address === undefined
  expect(await unitsOf(reader)).toEqual([5_000_000n])
})

test('an event with megabytes of data is read at once, and tells of nothing', () => {
  const log = {
    address: ANYBODYS_TOKEN,
    topics: [],
    data: `0x${'ab'.repeat(1_900_000)}`,
    blockNumber: '0x1',
    blockHash: `0x${'1'.repeat(64)}`,
    transactionHash: `0x${'2'.repeat(64)}`,
    logIndex: '0x0',
  }
  expect(logs.parse([log])).toEqual([{ ...log, blockNumber: 1, logIndex: 0, data: '' }])
})

test('an answer that is too large is asked for in halves of its blocks', async () => {
  const large = paid({ block: 10, data: `0x${'ab'.repeat(3_000_000)}` })
  const { reader } = open(2, [large, paid()])
  expect(await unitsOf(reader)).toEqual([5_000_000n])
})

test('in one block a node that refuses is asked for halves of the addresses', async () => {
  const { reader, nodes } = open(2, [paid(), paid({ to: OTHER_ADDRESS, units: 6_000_000n })])
  for (const node of nodes) node.refuses = ({ topics: [, , receivers] }) => receivers.length > 1
  const range = { from: 50, to: 50 }
  expect(await unitsOf(reader, [ADDRESS, OTHER_ADDRESS], range)).toEqual([5_000_000n, 6_000_000n])
})

test('more transfers than are held at once are too many, but in a single block', async () => {
  const events = Array.from({ length: 5_001 }, () => paid({ units: 1n, transaction: `0x${'7'.repeat(64)}` }))
  const { reader, troubles } = open(1, events)
  await reader.finalBlock()
  expect(await troubleOf(reader.finalTransfers([ADDRESS], RANGE))).toBe('too_many')
  expect(troubles).toEqual(['1 too_many'])
  expect(await unitsOf(reader, [ADDRESS], { from: 50, to: 50 })).toHaveLength(5_001)
})

test('too many are so once two nodes say it, and no third one is asked', async () => {
  const { reader, at } = open(3, flood())
  await reader.finalBlock()
  expect(await troubleOf(reader.finalTransfers([ADDRESS], RANGE))).toBe('too_many')
  expect(at(2).asked.filter((method) => method === 'eth_getLogs')).toEqual([])
})

test('a node that alone tells of too many makes no step shorter, and is asked after the others', async () => {
  const { reader, at, troubles } = open(3, [paid()])
  at(0).events = flood()
  expect(await unitsOf(reader)).toEqual([5_000_000n])
  expect(troubles).toEqual(['1 too_many', '1 disagree'])
  at(0).asked.length = 0
  expect(await unitsOf(reader)).toEqual([5_000_000n])
  expect(at(0).asked).toEqual([])
})

test('a receipt that others have filled is read, and no two such at once', async () => {
  const { reader, at } = open(1, [paid(), paid({ block: 60, units: 6_000_000n })])
  const filled = `"filled":"${'ab'.repeat(1_500_000)}"`
  at(0).instead = (question) =>
    question.method === 'eth_getTransactionReceipt'
      ? JSON.stringify({ id: 1, result: at(0).answer(question) }).replace('{"id"', `{${filled},"id"`)
      : null
  expect(await unitsOf(reader)).toEqual([5_000_000n, 6_000_000n])
  expect(at(0).asked.filter((method) => method === 'eth_getTransactionReceipt')).toHaveLength(4)
})

test('a node that is slow with receipts is given up; what it has told of is not asked for again', async () => {
  const { reader, at } = open(
    1,
    Array.from({ length: 400 }, () => paid({ units: 1n })),
  )
  await reader.finalBlock()
  const receipts = () => at(0).asked.filter((method) => method === 'eth_getTransactionReceipt').length
  at(0).slowMs = 2.5 * SECOND_MS
  expect(await troubleOf(reader.finalTransfers([ADDRESS], RANGE))).toBe('away')
  const before = receipts()
  expect(before).toBeGreaterThan(20)
  expect(before).toBeLessThan(300)
  at(0).slowMs = 0
  expect(await unitsOf(reader)).toHaveLength(400)
  expect(receipts()).toBeLessThan(before + 400)
})

test('a flood of 100,000 transfers in one transaction of one block is read', async () => {
  const events = Array.from({ length: 100_000 }, () => paid({ units: 1n, transaction: `0x${'7'.repeat(64)}` }))
  const { reader } = open(1, events)
  expect(await unitsOf(reader, [ADDRESS], { from: 50, to: 50 })).toHaveLength(100_000)
})

test('a node that is far behind the furthest one is counted, and told of with its final block', async () => {
  const { reader, at, troubles } = open(3, [])
  at(2).finalBlock = 90
  for (const index of [0, 1]) Object.assign(at(index), { finalBlock: 690, headBlock: 700 })
  await reader.finalBlock()
  expect(troubles).toEqual([])
  for (const index of [0, 1]) Object.assign(at(index), { finalBlock: 691 })
  expect(await reader.finalBlock()).toMatchObject({ number: 691 })
  expect(troubles).toEqual(['3 behind'])
})

test('a node that stands still alone against two does not hold the head back', async () => {
  const { reader, at } = open(3, [])
  for (const index of [1, 2]) at(index).headBlock = 500
  expect(await reader.headBlock()).toBe(500)
})

test.each<[string, Partial<FakeEvent>]>([
  ['sender', { sender: `0x${'ba'.repeat(20)}` }],
  ['amount', { units: 6_000_000n }],
])('two nodes that tell of another %s do not agree', async (_, over) => {
  const { reader, at } = open(2, [paid()])
  at(1).events = [paid(over)]
  expect(await troubleOf(unitsOf(reader))).toBe('disagree')
})

test('two nodes that tell of another number of the same block do not agree', async () => {
  const { reader, at } = open(2, [paid()])
  const moved = (text: string) => text.replace('"blockNumber":"0x32"', '"blockNumber":"0x33"')
  at(1).instead = (question) =>
    question.method === 'eth_getLogs' ? moved(JSON.stringify({ id: 1, result: at(1).answer(question) })) : null
  expect(await troubleOf(unitsOf(reader))).toBe('disagree')
})

test('of four nodes two that are behind do not agree that nothing has come', async () => {
  const { reader, at } = open(4, [paid()])
  for (const index of [0, 1]) Object.assign(at(index), { finalBlock: 40, headBlock: 45, events: [] })
  expect(await reader.finalBlock()).toMatchObject({ number: 100 })
  expect(await unitsOf(reader)).toEqual([5_000_000n])
})

test.each<[string, Partial<FakeEvmNode>]>([
  ['names another chain', { chainId: 1 }],
  ['counts in other decimals', { decimals: 18 }],
  ['knows no such contract', { instead: ({ method }) => (method === 'eth_call' ? '{"result":"0x"}' : null) }],
])('one of three nodes that %s is no reason not to start', async (_, wrong) => {
  const { reader, at } = open(3, [])
  Object.assign(at(0), wrong)
  await reader.check()
  const pair = open(2, [])
  for (const node of pair.nodes) Object.assign(node, wrong)
  expect(await troubleOf(pair.reader.check())).toBe('wrong')
})

test('a node that refuses slowly is given up for a while, and the others are asked first', async () => {
  const { reader, at } = open(3, [paid()])
  Object.assign(at(0), { refuses: () => true })
  await reader.finalBlock()
  at(0).slowMs = 4 * SECOND_MS
  expect((await reader.finalTransfers([ADDRESS], RANGE)).length).toBe(1)
  expect(at(0).asked.filter((method) => method === 'eth_getLogs').length).toBeLessThan(12)
  at(0).asked.length = 0
  expect(await unitsOf(reader)).toEqual([5_000_000n])
  expect(at(0).asked).toEqual([])
})

test('a node that was paused is asked again where the others do not agree', async () => {
  const { reader, at } = open(3, [paid()])
  at(0).instead = () => 'nonsense'
  expect(await unitsOf(reader)).toEqual([5_000_000n])
  at(0).instead = () => null
  at(1).events = []
  expect(await unitsOf(reader)).toEqual([5_000_000n])
})

test('the head is one that two nodes have', async () => {
  const { reader, at } = open(3, [])
  at(0).headBlock = Number.MAX_SAFE_INTEGER
  expect(await reader.headBlock()).toBe(110)
})

test('JSON that nests deep is no answer, and is not parsed', async () => {
  const { reader, at } = open(1, [])
  at(0).instead = ({ method }) => (method === 'eth_getLogs' ? `{"result":${'['.repeat(1e6)}${']'.repeat(1e6)}}` : null)
  expect(await troubleOf(unitsOf(reader))).toBe('malformed')
})

test('of new transfers the largest of each address are shown, and their transactions are asked for once', async () => {
  const dust = Array.from({ length: 300 }, () => paid({ block: 105, units: 1n }))
  const { reader, at } = open(1, [...dust, paid({ block: 106 })])
  const range = { from: 101, to: 110 }
  const shown = await reader.newTransfers([ADDRESS], range)
  expect(shown).toHaveLength(20)
  expect(shown[0]).toMatchObject({ units: 5_000_000n })
  const receipts = () => at(0).asked.filter((method) => method === 'eth_getTransactionReceipt').length
  expect(receipts()).toBe(20)
  await reader.newTransfers([ADDRESS], range)
  expect(receipts()).toBe(20)
})

test('other tokens are found in one short question, a few of each address', async () => {
  const fakes = Array.from({ length: 100 }, () => paid({ contract: ANYBODYS_TOKEN }))
  const { reader, nodes } = open(2, [...fakes, paid()])
  await reader.finalBlock()
  const found = (await reader.otherTransfers?.([ADDRESS], RANGE)) ?? []
  expect(found.map(({ token, asset }) => ({ token, asset }))).toEqual(
    Array.from({ length: 20 }, () => ({ token: ANYBODYS_TOKEN, asset: null })),
  )
  expect(found.some(({ token }) => token === FAKE_TOKEN)).toBe(false)
  for (const node of nodes) node.refuses = () => true
  expect(await troubleOf(reader.otherTransfers?.([ADDRESS], RANGE) ?? Promise.resolve())).toBe('refused')
})
