/** Floods of tiny transfers and of deposits on Solana: real transfers of tokens in litesvm, behind a small node. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type DepositHouse, openDepositHouse } from '../../../../test/deposits/depositHouse.ts'
import { openRpcProxy, type RpcProxy } from '../../../../test/deposits/rpcProxy.ts'
import { newWallets, SolanaTestChain } from '../../../../test/deposits/solanaChain.ts'
import { makeSolanaToken, type SolanaTestToken } from '../../../../test/deposits/solanaToken.ts'
import { listTransfers } from '../operator/list.ts'
import { countFree } from '../pool/store.ts'

let chain: SolanaTestChain
let node: RpcProxy
let usdc: SolanaTestToken
let house: DepositHouse
beforeAll(async () => {
  chain = await SolanaTestChain.open()
  node = openRpcProxy(chain.url)
  usdc = await makeSolanaToken(chain)
  house = await openDepositHouse({ chain: 'solana', nodes: [node.url], tokens: { usdc: usdc.address } })
  await house.importAddresses(await newWallets(20))
  await house.look()
})
afterAll(async () => {
  await house.close()
  node.close()
  await chain.close()
})

const settle = async () => {
  chain.mine(3)
  await house.look()
}

test('small transfers wait for their sum, and are credited once though their slots are read again', async () => {
  const organizationId = await house.customer()
  const { id, address } = await house.create(organizationId, 500)
  await usdc.send(address, 600_000n)
  for (let looks = 0; looks < 3; looks += 1) await settle()
  expect((await listTransfers(house.database, id)).transfers).toMatchObject([{ state: 'small', units: 600_000n }])
  expect(await house.find(id)).toMatchObject({ status: 'created', txHash: null })
  await usdc.send(address, 400_000n)
  for (let looks = 0; looks < 3; looks += 1) await settle()
  expect((await house.credits(organizationId)).sort()).toEqual([40_000_000n, 60_000_000n])
  expect(await house.find(id)).toMatchObject({ status: 'credited_underpaid' })
})

test('of a transaction that was read no look asks again', async () => {
  const { address } = await house.create(await house.customer(), 500)
  await usdc.send(address, 5_000_000n)
  await settle()
  const asked = () => node.asked.filter((method) => method === 'getTransaction').length
  const before = asked()
  await settle()
  await settle()
  expect(asked()).toBe(before)
})

test('a deposit beyond those that an organization may have takes no address of the pool, and no node is asked', async () => {
  const organizationId = await house.customer()
  for (let made = 0; made < 10; made += 1) await house.create(organizationId, 500)
  const free = await countFree(house.database, 'solana')
  expect(free).toBeGreaterThan(0)
  const asked = node.asked.length
  for (let tries = 0; tries < 20; tries += 1)
    await expect(house.create(organizationId, 500)).rejects.toThrow('10 open deposits')
  expect(node.asked.length).toBe(asked)
  expect(await countFree(house.database, 'solana')).toBe(free)
})

test('a flood at one address holds up nobody: each transaction is listed about once, however short the steps get', async () => {
  const [flooded, other] = [await house.create(await house.customer(), 500), await house.customer()]
  const named = await usdc.send(flooded.address, 1n)
  const paid = await house.create(other, 500)
  // They name the account and move nothing.
  for (let count = 0; count < 12_000; count += 1) {
    const signature = `${named.signature.slice(0, -5)}${(11_111 + count).toString().replaceAll('0', 'z')}`
    chain.sent.push({ ...named, signature, slot: chain.slot, preTokenBalances: [], postTokenBalances: [] })
    if (count % 20 === 0) chain.mine(1)
  }
  await usdc.send(paid.address, 5_000_000n)
  chain.mine(3)
  node.asked.length = 0
  await house.look()
  expect(await house.credits(other)).toEqual([500_000_000n])
  const asked = (method: string) => node.asked.filter((each) => each === method).length
  expect(asked('getTransaction')).toBeLessThan(12_100)
  expect(asked('getSignaturesForAddress')).toBeLessThan(250)
  expect(await house.watch()).toMatchObject({ isBehind: false, shortened: 0 })
}, 60_000)
