/** The watcher of a chain: any process, one after the other, and for as long as it lives. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type DepositHouse, openDepositHouse, paidDeposit } from '../../../../test/deposits/depositHouse.ts'
import { FakeChain } from '../../../../test/deposits/fakeChain.ts'
import { MINUTE_MS, SECOND_MS } from '../../../lib/time.ts'
import { ChainFailure } from '../chains/chain.ts'
import { isChainAvailable } from './available.ts'
import { createDepositGauges } from './gauges.ts'
import { createDepositRunner } from './runner.ts'
import { claimChains } from './store.ts'

const LEASE = '01993f8e-5c7b-7e0b-8a35-c1f2d3e4a5b6'

let chain: FakeChain
let house: DepositHouse
beforeAll(async () => {
  chain = new FakeChain('base')
  house = await openDepositHouse({ chain: 'base', nodes: [], tokens: chain.tokens, reader: chain })
})
afterAll(() => house.close())

/** The runner of a process, which looks once each time it is asked to. */
function openProcess(reader = chain, at = house) {
  const chains = [{ chain: 'base', blockRange: 100, pollMs: SECOND_MS, reader }] as const
  return createDepositRunner({ ...at.dependencies(), chains })
}

const linesWith = (words: string) => house.logs.filter((line) => line.includes(words)).length

const isAvailable = () => isChainAvailable(house.database, 'base', SECOND_MS, house.clock.now())

const statusOf = async (id: string) => (await house.find(id)).status

test('a deposit may begin once a process has looked at the chain, and not while looks fail', async () => {
  const runner = openProcess()
  expect(await isAvailable()).toBe(false)
  await runner.run()
  expect(await isAvailable()).toBe(true)
  chain.onAsked = () => {
    throw new ChainFailure('away', 'away')
  }
  await house.clock.turn(2 * SECOND_MS)
  await runner.run()
  expect(await isAvailable()).toBe(false)
  chain.onAsked = () => {}
  await house.clock.turn(2 * SECOND_MS)
  await runner.run()
  expect(await isAvailable()).toBe(true)
  await runner.close()
})

test('a look that fails in the database counts as failed', async () => {
  const runner = openProcess()
  chain.onAsked = () => {
    throw new Error('canceling statement due to statement timeout')
  }
  await house.clock.turn(2 * SECOND_MS)
  await runner.run()
  expect(await isAvailable()).toBe(false)
  chain.onAsked = () => {}
  await house.clock.turn(2 * SECOND_MS)
  await runner.run()
  expect(await isAvailable()).toBe(true)
  await runner.close()
})

test('a chain at which nobody has looked for minutes is not available', async () => {
  await house.clock.turn(5 * MINUTE_MS)
  expect(await isAvailable()).toBe(false)
})

test('one process after the other settles and credits what came', async () => {
  const [one, other] = [openProcess(), openProcess()]
  for (const runner of [one, other, one]) {
    const { id } = await paidDeposit(house, chain)
    await house.clock.turn(2 * SECOND_MS)
    await runner.run()
    await runner.run()
    expect(await statusOf(id)).toBe('credited')
  }
  await Promise.all([one.close(), other.close()])
})

test('the chain of a process that died is taken over a minute later, and not before', async () => {
  const { id, organizationId } = await paidDeposit(house, chain)
  const nowMs = house.clock.now() + 2 * SECOND_MS
  await house.clock.turn(2 * SECOND_MS)
  expect(await claimChains(house.database, ['base'], { nowMs, untilMs: nowMs + MINUTE_MS }, LEASE, 1)).toEqual(['base'])
  const runner = openProcess()
  await runner.run()
  expect(await statusOf(id)).toBe('created')
  await house.clock.turn(MINUTE_MS)
  await runner.run()
  await runner.run()
  expect(await statusOf(id)).toBe('credited')
  expect(await house.credits(organizationId)).toHaveLength(1)
  await runner.close()
})

test('while the final block stands still no deposit may begin, and the log and a gauge say so', async () => {
  const runner = openProcess()
  const { gauges, refresh } = createDepositGauges(house.database, house.clock, ['base'])
  const stillSeconds = async () => {
    await refresh()
    const gauge = gauges.find(({ name }) => name === 'tollgate_deposit_chain_final_still_seconds')
    return [...(gauge?.readEach() ?? [])].map(([, seconds]) => seconds)[0]
  }
  const look = async (afterMs: number) => {
    await house.clock.turn(afterMs)
    await runner.run()
    return isAvailable()
  }
  chain.mine()
  chain.finalize()
  expect(await look(2 * SECOND_MS)).toBe(true)
  for (let looks = 0; looks < 29; looks += 1) expect(await look(MINUTE_MS)).toBe(true)
  expect(linesWith('stands still')).toBe(0)
  for (let looks = 0; looks < 3; looks += 1) await look(MINUTE_MS)
  expect(await isAvailable()).toBe(false)
  expect(linesWith('stands still')).toBe(1)
  expect(await stillSeconds()).toBe(32 * 60)
  chain.mine()
  chain.finalize()
  expect(await look(MINUTE_MS)).toBe(true)
  expect(await stillSeconds()).toBe(0)
  await runner.close()
})

test('of a chain that is read in shorter steps the log says so once', async () => {
  await paidDeposit(house, chain)
  for (let blocks = 0; blocks < 20; blocks += 1) chain.mine()
  chain.finalize()
  const flooded = Object.assign(Object.create(chain), {
    finalTransfers(...[addresses, range]: Parameters<FakeChain['finalTransfers']>) {
      if (range.to - range.from > 3) throw new ChainFailure('too_many', 'too many')
      return chain.finalTransfers(addresses, range)
    },
  }) as FakeChain
  const runner = openProcess(flooded)
  for (let looks = 0; looks < 3; looks += 1) {
    for (let blocks = 0; blocks < 20; blocks += 1) chain.mine()
    chain.finalize()
    await house.clock.turn(2 * SECOND_MS)
    await runner.run()
  }
  expect(linesWith('shorter steps')).toBe(1)
  await runner.close()
})

test('the metrics say how far settled blocks lag behind the head, and how old the oldest deposit of each status is', async () => {
  const fake = new FakeChain('base')
  const other = await openDepositHouse({ chain: 'base', nodes: [], tokens: fake.tokens, reader: fake })
  const runner = openProcess(fake, other)
  const { clock } = other
  const gauges = createDepositGauges(other.database, clock, ['base'])
  const shown = async () => {
    await gauges.refresh()
    return new Map(
      gauges.gauges.flatMap(({ name, readEach }) =>
        [...readEach()].map(([labels, value]) => [`${name} ${Object.values(labels).join()}`, value] as const),
      ),
    )
  }
  try {
    await runner.run()
    const organizationId = await other.customer()
    const { address } = await other.create(organizationId, 500)
    fake.pay(address, 5_000_000n)
    await clock.turn(10 * MINUTE_MS)
    await other.create(organizationId, 500)
    for (let blocks = 0; blocks < 20; blocks += 1) fake.mine()
    fake.finalize(7)
    other.hook = async () => ({ verdict: 'hold', reason: 'look' })
    // The first look settles, the second one screens.
    for (let looks = 0; looks < 2; looks += 1) await runner.run()
    await clock.turn(5 * MINUTE_MS)
    const before = await shown()
    expect(Object.fromEntries(before)).toMatchObject({
      'tollgate_deposit_chain_up base': 1,
      'tollgate_deposit_chain_head_block base': 20,
      'tollgate_deposit_chain_settled_block base': 13,
      'tollgate_deposit_chain_lag_blocks base': 7,
      'tollgate_deposit_chain_unseen_seconds base': 300,
      'tollgate_oldest_deposit_seconds created': 300,
      'tollgate_oldest_deposit_seconds held_screening': 900,
    })
    fake.finalize()
    await runner.run()
    await other.create(organizationId, 500)
    expect(Object.fromEntries(await shown())).toMatchObject({
      'tollgate_deposit_chain_settled_block base': 20,
      'tollgate_deposit_chain_lag_blocks base': 0,
      'tollgate_deposit_chain_unseen_seconds base': 0,
      'tollgate_deposits created': 2,
      'tollgate_oldest_deposit_seconds created': 300,
    })
  } finally {
    await runner.close()
    await other.close()
  }
})
