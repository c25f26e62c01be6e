import { expect } from 'bun:test'
import { DAY_MS } from '../../src/lib/time.ts'
import type { TestChain } from './anvil.ts'
import type { DepositHouse } from './depositHouse.ts'
import type { TestToken } from './token.ts'

/** Nobody looks while the chain grows by so many blocks with two payments in them: both are credited when somebody looks again. */
export async function creditAfterGap(
  house: DepositHouse,
  chain: TestChain,
  usdc: TestToken,
  blocks: number,
): Promise<void> {
  const organizationId = await house.customer()
  const [first, second] = [await house.create(organizationId, 500), await house.create(organizationId, 600)]
  await chain.mine(Math.floor(blocks / 2))
  await usdc.send(first.address, 5_000_000n)
  await chain.mine(Math.ceil(blocks / 2))
  await usdc.send(second.address, 6_000_000n)
  // Meanwhile the time in which the addresses are watched ends.
  await house.clock.turn(60 * DAY_MS)
  await chain.mine(3)
  await house.look()
  const statuses = await Promise.all([first, second].map(async ({ id }) => (await house.find(id)).status))
  expect(statuses).toEqual(['credited', 'credited'])
}
