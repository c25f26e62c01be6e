/** A node that sends events that nobody asked for, or many: it is asked after the others, and its large answers are parsed in a thread. */

import { expect, test } from 'bun:test'
import { FakeEvmNode, readFakeNodes } from '../../../../test/deposits/fakeEvmNodes.ts'
import { SILENCE } from '../../../../test/silence.ts'
import { readAnswer } from '../chains/answer.ts'
import { createLargeAnswers } from './largeAnswers.ts'
import { eventsOf, receipt } from './shapes.ts'

const ADDRESS = `0x${'a1'.repeat(20)}`
const RANGE = { from: 1, to: 100 }
const TOPIC = `0x${'0'.repeat(24)}${ADDRESS.slice(2)}`

type Event = Record<string, unknown> & { readonly topics: readonly string[] }

/** Three nodes that see one transfer; the first changes each event that it tells of. */
function openWithLiar(change: (event: Event) => unknown) {
  const nodes = [0, 1, 2].map(() =>
    Object.assign(new FakeEvmNode(), { events: [{ block: 50, to: ADDRESS, units: 5_000_000n }] }),
  )
  const [liar = new FakeEvmNode()] = nodes
  liar.instead = (question) =>
    question.method === 'eth_getLogs'
      ? JSON.stringify({ id: 1, result: (liar.answer(question) as Event[]).map(change) })
      : null
  return { liar, ...readFakeNodes(nodes) }
}

test.each<[string, (event: Event) => unknown]>([
  ['of a block before them', (event) => ({ ...event, blockNumber: '0x0' })],
  ['of a block behind them', (event) => ({ ...event, blockNumber: '0x65' })],
  ['of another contract', (event) => ({ ...event, address: `0x${'fa'.repeat(20)}` })],
  ['of another receiver', ({ topics: [event, from], ...log }) => ({ ...log, topics: [event, from, event] })],
  ['of another kind', ({ topics: [, ...rest], ...log }) => ({ ...log, topics: [TOPIC, ...rest] })],
  ['without topics', (event) => ({ ...event, topics: [] })],
  ['that was taken back', (event) => ({ ...event, removed: true })],
])('a node that sends an event %s is asked after the others', async (_, change) => {
  const { reader, liar, troubles } = openWithLiar(change)
  await reader.finalBlock()
  expect(await reader.newTransfers([ADDRESS], RANGE)).toMatchObject([{ units: 5_000_000n }])
  expect(troubles).toEqual(['1 malformed'])
  liar.asked.length = 0
  expect(await reader.finalTransfers([ADDRESS], RANGE)).toMatchObject([{ units: 5_000_000n }])
  expect(liar.asked).toEqual([])
})

test('of several blocks one large answer of a node is read; with a second one the others are asked', async () => {
  const { reader, liar, troubles } = openWithLiar((event) => event)
  const filled = `{"filled":"${'ab'.repeat(2_500_000)}","id":1,"result":[]}`
  liar.instead = ({ method }) => (method === 'eth_getLogs' ? filled : null)
  expect(await reader.newTransfers([ADDRESS], { from: 50, to: 51 })).toHaveLength(1)
  expect(troubles.filter((each) => each !== '1 too_large')).toEqual(['1 too_many'])
  // Of both blocks together, then of each by itself, of which the first was read whole.
  expect(liar.asked.filter((method) => method === 'eth_getLogs')).toHaveLength(4)
})

test('the thread answers as the event loop does', async () => {
  const asked = { from: 50, to: 50, contracts: [], receivers: [ADDRESS] }
  const node = Object.assign(new FakeEvmNode(), { events: [{ block: 50, to: ADDRESS, units: 7n }] })
  const filter = { fromBlock: '0x32', toBlock: '0x32', topics: [null, null, [TOPIC]] }
  const told = (result: unknown) => new TextEncoder().encode(JSON.stringify({ id: 1, result }))
  const events = told(node.answer({ method: 'eth_getLogs', params: [filter] }))
  const filled = told({ blockHash: `0x${'1'.repeat(64)}`, logs: [{ logIndex: '0x7' }] })
  const wrong = told([{ nothing: true }])
  const broken = new TextEncoder().encode('{"id":1')
  const large = createLargeAnswers(SILENCE)
  for (const bytes of [events, wrong, broken]) {
    expect(await large.events(asked)(bytes.slice())).toEqual(readAnswer(bytes, eventsOf(asked)))
  }
  expect(await large.events(asked)(events)).toMatchObject({ kind: 'read', value: [{ logIndex: 0 }] })
  for (const bytes of [filled, told(null), wrong]) {
    expect(await large.receipt(bytes.slice())).toEqual(readAnswer(bytes, receipt.nullable()))
  }
})
