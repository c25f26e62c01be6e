/** A gap of 10,000 blocks: a chain of tests takes half a minute and more to mine it. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openTestChain, type TestChain } from '../../../../test/deposits/anvil.ts'
import { type DepositHouse, openDepositHouse } from '../../../../test/deposits/depositHouse.ts'
import { creditAfterGap } from '../../../../test/deposits/gap.ts'
import { deployToken, type TestToken } from '../../../../test/deposits/token.ts'

const BLOCKS = 10_000
const LIMIT_MS = 10 * 60_000

let chain: TestChain
let usdc: TestToken
let house: DepositHouse
beforeAll(async () => {
  chain = await openTestChain(8_453)
  usdc = await deployToken(chain.url, 'USDC')
  house = await openDepositHouse({ chain: 'base', nodes: [chain.url], tokens: { usdc: usdc.address } })
  await house.look()
})
afterAll(async () => {
  await house.close()
  await chain.close()
})

test(
  'what came within 10,000 blocks that nobody looked at is credited',
  async () => {
    await creditAfterGap(house, chain, usdc, BLOCKS)
    expect(Number(await chain.ask<string>('eth_blockNumber'))).toBeGreaterThan(BLOCKS)
  },
  LIMIT_MS,
)
