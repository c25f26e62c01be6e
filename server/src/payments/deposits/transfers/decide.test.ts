/** Decisions of the operator about held transfers, while processes claim what is due to be screened. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type DepositHouse, openDepositHouse, paidDeposit } from '../../../../test/deposits/depositHouse.ts'
import { FakeChain } from '../../../../test/deposits/fakeChain.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { MINUTE_MS } from '../../../lib/time.ts'
import { decideHeld } from './decide.ts'
import { claimScreenings } from './store.ts'

let chain: FakeChain
let house: DepositHouse
beforeAll(async () => {
  chain = new FakeChain('ethereum')
  house = await openDepositHouse({ chain: 'ethereum', nodes: [], tokens: chain.tokens, reader: chain })
  await house.look()
})
afterAll(() => house.close())

/** A database where something happens in a transaction as soon as that has read the held transfers. */
function afterHeldAreRead(database: Database, happen: () => Promise<void>): Database {
  return {
    ...database,
    transaction: (work, owner) =>
      database.transaction((tx) => {
        const query: typeof tx.query = async (text, parameters) => {
          const rows = await tx.query(text, parameters)
          if (text.startsWith('select') && text.includes("state = 'held'")) await happen()
          return rows as never
        }
        return work({ ...tx, query })
      }, owner),
  }
}

test.each([
  ['credit', { kind: 'credit' }, 'credited', 1],
  ['reject', { kind: 'reject', reason: 'by the operator' }, 'failed_screening', 0],
] as const)(
  'a transfer that the operator decides to %s is not claimed meanwhile, though it is due to be screened',
  async (_, decision, status, credits) => {
    house.hook = async () => ({ verdict: 'hold', reason: 'look' })
    const { id, organizationId } = await paidDeposit(house, chain)
    await house.look()
    await house.clock.turn(2 * MINUTE_MS)
    const nowMs = house.clock.now()
    const claims: number[] = []
    const database = afterHeldAreRead(house.database, async () => {
      claims.push((await claimScreenings(house.database, { nowMs, untilMs: nowMs + MINUTE_MS }, 10)).length)
    })
    expect(await decideHeld({ ...house.dependencies(), database }, id, decision)).toBe(1)
    expect(claims).toEqual([0])
    expect((await house.find(id)).status).toBe(status)
    house.hook = async () => ({ verdict: 'pass' })
    await house.clock.turn(120 * MINUTE_MS)
    await house.look()
    expect(await house.credits(organizationId)).toHaveLength(credits)
  },
)
