/** Deposits on a real chain of the EVM: anvil, with tokens of our own source. Blocks are final two blocks after they were mined. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openTestChain, type TestChain } from '../../../../test/deposits/anvil.ts'
import { type DepositHouse, openDepositHouse } from '../../../../test/deposits/depositHouse.ts'
import { creditAfterGap } from '../../../../test/deposits/gap.ts'
import { deployToken, type TestToken } from '../../../../test/deposits/token.ts'
import { DAY_MS, HOUR_MS } from '../../../lib/time.ts'
import { statusAt } from '../deposit/deposit.ts'
import { listDeposits } from '../deposit/find.ts'
import { listTransfers } from '../operator/list.ts'
import { rescanChain } from './rescan.ts'

const DOLLAR = 1_000_000n
const DOLLAR_MICROCENTS = 100_000_000n

let chain: TestChain
let usdc: TestToken
let usdt: TestToken
let house: DepositHouse
beforeAll(async () => {
  chain = await openTestChain(1)
  usdc = await deployToken(chain.url, 'USDC')
  usdt = await deployToken(chain.url, 'USD₮0')
  house = await openDepositHouse({
    chain: 'ethereum',
    nodes: [chain.url],
    tokens: { usdc: usdc.address, usdt: usdt.address },
  })
  await house.look()
})
afterAll(async () => {
  await house.close()
  await chain.close()
})

/** Makes everything final that is in a block. */
const settle = async () => {
  await chain.mine(3)
  await house.look()
}

const statusOf = async (id: string) => (await house.find(id)).status

test('an exact payment is detected, confirming and, once it is final, credited once', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 2_500)
  await house.look()
  expect(await statusOf(id)).toBe('created')
  const hash = await usdc.send(address, 25n * DOLLAR)
  await house.look()
  expect(await house.find(id)).toMatchObject({ status: 'detected', txHash: hash, creditedMicrocents: 0n })
  await chain.mine(1)
  await house.look()
  expect(await statusOf(id)).toBe('confirming')
  expect(await house.credits(organizationId)).toEqual([])
  await settle()
  expect(await house.find(id)).toMatchObject({ status: 'credited', creditedMicrocents: 25n * DOLLAR_MICROCENTS })
  await settle()
  expect(await house.credits(organizationId)).toEqual([25n * DOLLAR_MICROCENTS])
})

test('a transfer is credited to the micro-cent, also where it is too little or too much', async () => {
  const organizationId = await house.customer()
  const [under, over] = [await house.create(organizationId, 1_000), await house.create(organizationId, 1_000)]
  await usdc.send(under.address, 9_999_999n)
  await usdc.send(over.address, 10_000_001n)
  await settle()
  expect(await house.find(under.id)).toMatchObject({ status: 'credited_underpaid', creditedMicrocents: 999_999_900n })
  expect(await house.find(over.id)).toMatchObject({ status: 'credited_overpaid', creditedMicrocents: 1_000_000_100n })
})

test('three parts in one transaction are three credits; a later payment takes the deposit back to detected', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 900)
  await usdc.sendParts(address, [2n * DOLLAR, 3n * DOLLAR, 4n * DOLLAR])
  await settle()
  expect(await statusOf(id)).toBe('credited')
  expect(await house.credits(organizationId)).toEqual([2n, 3n, 4n].map((dollars) => dollars * DOLLAR_MICROCENTS))
  await usdc.send(address, DOLLAR)
  await house.look()
  expect(await house.find(id)).toMatchObject({ status: 'detected', creditedMicrocents: 9n * DOLLAR_MICROCENTS })
  await settle()
  expect(await statusOf(id)).toBe('credited_overpaid')
})

test('another token, also one that is taken elsewhere, is reported and never credited', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  const fake = await deployToken(chain.url, 'USDC')
  await fake.send(address, 5n * DOLLAR)
  await usdt.send(address, 5n * DOLLAR)
  await settle()
  expect(await statusOf(id)).toBe('created')
  expect(await house.credits(organizationId)).toEqual([])
  const { transfers } = await listTransfers(house.database, id)
  expect(transfers.map(({ token, state }) => ({ token, state }))).toEqual(
    [usdt, fake].map((token) => ({ token: token.address, state: 'wrong_token' })),
  )
})

test('a transfer of nothing changes nothing', async () => {
  const { id, address } = await house.create(await house.customer(), 500)
  await usdc.send(address, 0n)
  await settle()
  expect(await statusOf(id)).toBe('created')
})

test('a payment after the deposit expired is credited too, for 30 days', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  await house.clock.turn(25 * HOUR_MS)
  await house.look()
  expect(await statusOf(id)).toBe('expired')
  await house.clock.turn(29 * DAY_MS)
  await usdc.send(address, 5n * DOLLAR)
  await house.look()
  expect(await statusOf(id)).toBe('expired_received')
  await settle()
  expect(await statusOf(id)).toBe('credited')
  expect(await house.credits(organizationId)).toEqual([5n * DOLLAR_MICROCENTS])
})

test('a payment that is mined again in another block keeps its place and is credited once', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  const hash = await usdc.send(address, 5n * DOLLAR)
  await house.look()
  expect(await statusOf(id)).toBe('detected')
  const raw = await chain.ask('eth_getRawTransactionByHash', hash)
  await chain.reorganize(1)
  await house.look()
  expect(await statusOf(id)).toBe('created')
  // Another event comes before it now, so that its place in the block is another one.
  await usdc.goFirst()
  expect(await chain.ask<string>('eth_sendRawTransaction', raw)).toBe(hash)
  await chain.mine(1)
  const { logs } = await chain.ask<{ logs: { logIndex: string }[] }>('eth_getTransactionReceipt', hash)
  expect(logs.map(({ logIndex }) => logIndex)).toEqual(['0x1'])
  await house.look()
  expect(await statusOf(id)).toBe('detected')
  await settle()
  expect(await statusOf(id)).toBe('credited')
  expect(await house.credits(organizationId)).toEqual([5n * DOLLAR_MICROCENTS])
})

test('a payment that the chain takes back is never credited, and the deposit fails when it expires', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  await usdc.send(address, 5n * DOLLAR)
  await house.look()
  await chain.reorganize(1)
  await settle()
  expect(await statusOf(id)).toBe('created')
  await house.clock.turn(25 * HOUR_MS)
  await house.look()
  expect(await statusOf(id)).toBe('failed')
  expect(await house.credits(organizationId)).toEqual([])
})

test('a payment that the chain took back is shown as failed from the instant of its expiry, before a watcher says so', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  await usdc.send(address, 5n * DOLLAR)
  await house.look()
  await chain.reorganize(1)
  await house.look()
  const shown = async () => {
    const [listed] = await listDeposits(house.database, organizationId, 1)
    return [await house.find(id), listed].map((found) => found && statusAt(found, house.clock.now()))
  }
  expect(await shown()).toEqual(['created', 'created'])
  await house.clock.turn(25 * HOUR_MS)
  expect(await shown()).toEqual(['failed', 'failed'])
  await house.look()
  expect(await shown()).toEqual(['failed', 'failed'])
})

test('two watchers and two screenings at once credit each payment once', async () => {
  const organizationId = await house.customer()
  const deposits = await Promise.all([500, 600, 700].map((cents) => house.create(organizationId, cents)))
  for (const { address, amountCents } of deposits) await usdc.send(address, BigInt(amountCents) * 10_000n)
  await chain.mine(3)
  await Promise.all([house.watch(), house.watch(), house.watch()])
  await Promise.all([house.screen(), house.screen(), house.screen()])
  expect((await house.credits(organizationId)).sort()).toEqual([500n, 600n, 700n].map((cents) => cents * 1_000_000n))
})

test('a gap in which the time of watching ends is read in ranges, and what came within it is credited', async () => {
  await creditAfterGap(house, chain, usdc, 1_500)
}, 120_000)

test('a payment after the time of watching is found by a rescan, and what was credited before is not credited again', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  await usdc.send(address, 5n * DOLLAR)
  await settle()
  const block = Number(await chain.ask<string>('eth_blockNumber'))
  await house.clock.turn(40 * DAY_MS)
  await house.look()
  await usdc.send(address, 7n * DOLLAR)
  await settle()
  expect(await house.credits(organizationId)).toHaveLength(1)
  await rescanChain(house.database, 'ethereum', block - 10, house.clock.now())
  await house.look()
  expect((await house.credits(organizationId)).sort()).toEqual([500_000_000n, 700_000_000n])
  expect(await statusOf(id)).toBe('credited_overpaid')
})
