/** Deposits on Solana: real transfers of tokens in litesvm, behind a small node. Blocks are final two slots after they were made. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type DepositHouse, openDepositHouse } from '../../../../test/deposits/depositHouse.ts'
import { newWallets, SolanaTestChain } from '../../../../test/deposits/solanaChain.ts'
import { makeSolanaToken, type SolanaTestToken } from '../../../../test/deposits/solanaToken.ts'
import { DAY_MS, HOUR_MS } from '../../../lib/time.ts'
import { listTransfers } from '../operator/list.ts'
import { planSweep } from '../operator/sweepPlan.ts'
import { rescanChain } from '../watch/rescan.ts'

const DOLLAR = 1_000_000n
const DOLLAR_MICROCENTS = 100_000_000n

let chain: SolanaTestChain
let usdc: SolanaTestToken
let usdt: SolanaTestToken
let house: DepositHouse
beforeAll(async () => {
  chain = await SolanaTestChain.open()
  usdc = await makeSolanaToken(chain)
  usdt = await makeSolanaToken(chain)
  const tokens = { usdc: usdc.address, usdt: usdt.address }
  house = await openDepositHouse({ chain: 'solana', nodes: [chain.url], tokens })
  await house.importAddresses(await newWallets(60))
  await house.look()
})
afterAll(async () => {
  await house.close()
  await chain.close()
})

/** Makes everything final that is in a block. */
const settle = async () => {
  chain.mine(3)
  await house.look()
}

const statusOf = async (id: string) => (await house.find(id)).status

test('an exact payment is credited once it is final, and once', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 2_500)
  chain.mine(3)
  const { signature } = await usdc.send(address, 25n * DOLLAR)
  await house.look()
  expect(await house.find(id)).toMatchObject({ status: 'created', txHash: null })
  chain.mine(1)
  await house.look()
  expect(await statusOf(id)).toBe('created')
  expect(await house.credits(organizationId)).toEqual([])
  chain.mine(1)
  await house.look()
  expect(await house.find(id)).toMatchObject({
    status: 'credited',
    txHash: signature,
    creditedMicrocents: 25n * DOLLAR_MICROCENTS,
  })
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

test('parts in three transactions are three credits, parts in one are one of their sum', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 1_400)
  for (const dollars of [2n, 3n]) await usdc.send(address, dollars * DOLLAR)
  await settle()
  expect(await statusOf(id)).toBe('credited_underpaid')
  await usdc.sendParts({ to: address, units: 4n * DOLLAR }, { to: address, units: 5n * DOLLAR })
  await settle()
  expect(await statusOf(id)).toBe('credited')
  expect((await house.credits(organizationId)).sort()).toEqual(
    [2n, 3n, 9n].map((dollars) => dollars * DOLLAR_MICROCENTS),
  )
})

test('one transaction that pays two deposits is credited to both, each under its place', async () => {
  const organizationId = await house.customer()
  const [one, other] = [await house.create(organizationId, 500), await house.create(organizationId, 600)]
  await usdc.sendParts({ to: one.address, units: 5n * DOLLAR }, { to: other.address, units: 6n * DOLLAR })
  await settle()
  expect([await statusOf(one.id), await statusOf(other.id)]).toEqual(['credited', 'credited'])
  expect(await house.credits(organizationId)).toHaveLength(2)
})

test('the other mint is reported and never credited, a mint that is not taken is not seen', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  const stranger = await makeSolanaToken(chain)
  await stranger.send(address, 5n * DOLLAR)
  await usdt.send(address, 5n * DOLLAR)
  await settle()
  expect(await statusOf(id)).toBe('created')
  expect(await house.credits(organizationId)).toEqual([])
  const { transfers } = await listTransfers(house.database, id)
  expect(transfers).toMatchObject([{ token: usdt.address, state: 'wrong_token' }])
})

test('a deposit of USDT is credited by its mint', async () => {
  const { id, address } = await house.create(await house.customer(), 500, 'usdt')
  await usdt.send(address, 5n * DOLLAR)
  await settle()
  expect(await statusOf(id)).toBe('credited')
})

test('a transaction that failed has moved nothing', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  await usdc.sendAndFail(address, 5n * DOLLAR)
  // The account is there now, so that the failure is listed under it.
  await usdc.send(address, DOLLAR)
  await usdc.sendAndFail(address, 5n * DOLLAR)
  await settle()
  expect(await house.credits(organizationId)).toEqual([DOLLAR_MICROCENTS])
  expect(await statusOf(id)).toBe('credited_underpaid')
})

test('a transfer of nothing changes nothing', async () => {
  const { id, address } = await house.create(await house.customer(), 500)
  await usdc.send(address, 0n)
  await settle()
  expect(await statusOf(id)).toBe('created')
})

test('a payment that the chain gives up before it is final is never credited, and the deposit expires', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  const sent = await usdc.send(address, 5n * DOLLAR)
  chain.mine(1)
  await house.look()
  chain.drop(sent)
  await settle()
  await house.clock.turn(25 * HOUR_MS)
  await settle()
  expect(await statusOf(id)).toBe('expired')
  expect(await house.credits(organizationId)).toEqual([])
})

test('a payment after the deposit expired is credited too, for 30 days', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  await house.clock.turn(25 * HOUR_MS)
  await settle()
  expect(await statusOf(id)).toBe('expired')
  await house.clock.turn(29 * DAY_MS)
  await usdc.send(address, 5n * DOLLAR)
  await settle()
  expect(await statusOf(id)).toBe('credited')
  expect(await house.credits(organizationId)).toEqual([5n * DOLLAR_MICROCENTS])
})

test('two watchers and two screenings at once credit each payment once', async () => {
  const organizationId = await house.customer()
  const deposits = []
  for (const cents of [500, 600, 700]) deposits.push(await house.create(organizationId, cents))
  for (const { address, amountCents } of deposits) await usdc.send(address, BigInt(amountCents) * 10_000n)
  chain.mine(3)
  await Promise.all([house.watch(), house.watch(), house.watch()])
  await Promise.all([house.screen(), house.screen(), house.screen()])
  expect((await house.credits(organizationId)).sort()).toEqual([500n, 600n, 700n].map((cents) => cents * 1_000_000n))
})

test('a payment that a node lists only after its block was settled is found by the next look', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  const sent = await usdc.send(address, 5n * DOLLAR)
  chain.drop(sent)
  await settle()
  expect(await statusOf(id)).toBe('created')
  chain.sent.push(sent)
  await settle()
  expect(await statusOf(id)).toBe('credited')
})

test('an address gets as many payments as a node lists in several pages', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  const first = await usdc.send(address, 5n * DOLLAR)
  // Failed ones cost the sender as much as they cost the reader.
  const failed = await usdc.sendAndFail(address, DOLLAR)
  for (let count = 0; count < 2_500; count += 1) {
    const signature = `${failed.signature.slice(0, -4)}${(1_111 + count).toString().replaceAll('0', 'z')}`
    chain.sent.push({ ...failed, signature })
  }
  await settle()
  expect(await house.find(id)).toMatchObject({ status: 'credited', txHash: first.signature })
})

test('a payment after the time of watching is found by a rescan, and what was credited before is not credited again', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  await usdc.send(address, 5n * DOLLAR)
  await settle()
  await house.clock.turn(40 * DAY_MS)
  await settle()
  await usdc.send(address, 7n * DOLLAR)
  await settle()
  // Further away than a look reads again.
  chain.mine(1_000)
  await settle()
  expect(await house.credits(organizationId)).toHaveLength(1)
  await rescanChain(house.database, 'solana', 1, house.clock.now())
  await house.look()
  expect((await house.credits(organizationId)).sort()).toEqual([500_000_000n, 700_000_000n])
  expect(await statusOf(id)).toBe('credited_overpaid')
})

test('the sweep plan has what lies at an address, with no path of a key', async () => {
  const { address } = await house.create(await house.customer(), 500)
  await usdc.send(address, 5_000_001n)
  await settle()
  const { rows, missing } = await planSweep(house.database, new Map([['solana', house.reader]]), (_, shown) => shown)
  expect(missing).toBe(0)
  expect(rows.filter((row) => row.address === address)).toEqual([
    {
      chain: 'solana',
      asset: 'usdc',
      token: usdc.address,
      address,
      path: '',
      key_fingerprint: '',
      units: '5000001',
      amount: '5.000001',
    },
  ])
})
