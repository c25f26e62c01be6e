/** The addresses that are given out: at random indexes, each once, also after a restored backup. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { restoreBackup, takeBackup } from '../../../../test/backup.ts'
import { type DepositHouse, openDepositHouse, TEST_XPUB } from '../../../../test/deposits/depositHouse.ts'
import { FakeChain } from '../../../../test/deposits/fakeChain.ts'
import { systemRandom } from '../../../infra/random.ts'
import type { RandomBytes } from '../../../lib/ids.ts'
import { createDeposit } from '../deposit/create.ts'
import { createEvmAddresses, createEvmOffers } from './addresses.ts'

let house: DepositHouse
beforeAll(async () => {
  const chain = new FakeChain('ethereum')
  house = await openDepositHouse({ chain: 'ethereum', nodes: [], tokens: chain.tokens, reader: chain })
})
afterAll(() => house.close())

/** Begins ten deposits of a customer; returns their addresses. */
async function ten(): Promise<string[]> {
  const organizationId = await house.customer()
  const addresses: string[] = []
  for (let count = 0; count < 10; count += 1) addresses.push((await house.create(organizationId, 500)).address)
  return addresses
}

/** Gives out addresses by these bytes for indexes, in turn. */
async function createBy(organizationId: string, bytes: readonly (readonly number[])[]) {
  const left = [...bytes]
  const random: RandomBytes = () => Uint8Array.from(left.shift() ?? [])
  const addresses = createEvmOffers(createEvmAddresses(TEST_XPUB), random)
  const { database, clock, settings } = house
  const machine = { database, clock, settings, random: systemRandom(), addressesOf: () => addresses }
  const wanted = { organizationId, chain: 'ethereum', asset: 'usdc', amountCents: 500, keep: async () => [] } as const
  return await createDeposit({ ...machine, isAvailable: async () => true }, wanted)
}

const indexes = async () =>
  (await house.database.query<{ index: bigint }>('select address_index as index from deposits')).map(({ index }) =>
    Number(index),
  )

test('after a restored backup no address is given to a second customer', async () => {
  await ten()
  await takeBackup(house.database)
  const before = await ten()
  await restoreBackup(house.database)
  const after = await ten()
  expect(after.filter((address) => before.includes(address))).toEqual([])
  expect(new Set([...before, ...after]).size).toBe(20)
})

test('the index has 31 bits, from the least to the most', async () => {
  const organizationId = await house.customer()
  await createBy(organizationId, [[0, 0, 0, 0]])
  await createBy(organizationId, [[255, 255, 255, 255]])
  const found = await indexes()
  expect([Math.min(...found), Math.max(...found)]).toEqual([0, 2 ** 31 - 1])
  expect(found.filter((index) => index > 2 ** 30).length).toBeGreaterThan(2)
})

test('an index that was given out is not given out again, to any customer', async () => {
  const [first, second] = [await house.customer(), await house.customer()]
  const taken = [0, 0, 2, 2]
  const given = await createBy(first, [taken])
  const other = await createBy(second, [taken, taken, [0, 0, 4, 4]])
  expect(other.address).not.toBe(given.address)
  await expect(createBy(second, [taken, taken, taken, taken, taken])).rejects.toThrow('five addresses in a row')
})
