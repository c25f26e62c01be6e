/** How calls end in money, on real PostgreSQL: never above what was held for them (C10), and the books say so. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { admitCall } from '../../../test/admitCall.ts'
import { type Books, openBooks, PRICE } from '../../../test/books.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { openTill, type Till } from '../../../test/moneyHouse.ts'
import { priceHash } from '../../catalog/price.ts'
import type { Admitted } from '../admission/admit.ts'
import { priceTokens } from './pricing.ts'
import { chatTerms, commit, type Delivered, type Prepared, prepare } from './settle.ts'

const clock = new TurnedClock(Date.UTC(2030, 0, 15, 12))
const ROOM = { promptTokens: 10_000, completionTokens: Number.POSITIVE_INFINITY, totalTokens: 100_000 }

let books: Books
let till: Till
beforeAll(async () => {
  books = await openBooks(clock)
  till = openTill(books.database, 0, clock)
}, 60_000)
afterAll(() => books.drop())

async function admitted(organizationId: string, microcents: bigint): Promise<Admitted> {
  const call = {
    organizationId,
    keyId: '00000000-0000-4000-8000-000000000001',
    model: 'svc/test',
    tier: 'serverless' as const,
    priceHash: priceHash(PRICE),
  }
  const answer = await admitCall(till, call, { wholeMicrocents: microcents, firstStepMicrocents: microcents })
  if (!answer.ok) throw new Error(answer.refusal.message)
  return answer.value
}

const delivered = (promptTokens: number): Delivered => ({
  usage: { promptTokens, cachedPromptTokens: 0, completionTokens: 0 },
  estimated: false,
  target: 'mock/test',
  outcome: 'completed',
})

async function end(admission: Admitted, promptTokens: number): Promise<Prepared> {
  const prepared = await prepare(till, admission, chatTerms(PRICE, ROOM), delivered(promptTokens))
  await commit(till, prepared)
  return prepared
}

const perToken = PRICE.inputMicrocents / 1_000_000n
const PRICE_OF_1000 = priceTokens(PRICE, delivered(1_000).usage)

test('a call that costs more than is held is charged whole where the money is there', async () => {
  const organization = await books.organization(10_000n * perToken)
  const { charge } = await end(await admitted(organization, 10n * perToken), 1_000)
  expect(charge.costMicrocents).toBe(PRICE_OF_1000)
  expect(charge.listMicrocents).toBeUndefined()
  expect(await books.verify()).toEqual([])
})

test('where it is not, the call is charged what is held, its price stands beside it, and the balance stays above 0', async () => {
  const organization = await books.organization(100n * perToken)
  const { charge } = await end(await admitted(organization, 100n * perToken), 1_000)
  expect(charge.costMicrocents).toBe(100n * perToken)
  expect(charge.listMicrocents).toBe(PRICE_OF_1000)
  expect((await books.spent(organization)).microcents).toBe(100n * perToken)
  expect(await books.verify()).toEqual([])
  for (const change of ['list_microcents = list_microcents + 1', 'cost_microcents = list_microcents']) {
    await books.database.query(`update charges set ${change} where organization_id = $1::uuid`, [organization])
    expect((await books.verify()).map(({ kind }) => kind)).toContain(change.startsWith('list') ? 'cost' : 'rollup')
    await books.database.query(
      `update charges set list_microcents = $2::bigint, cost_microcents = $3::bigint where organization_id = $1::uuid`,
      [organization, PRICE_OF_1000, 100n * perToken],
    )
  }
})

test('a charge above its hold is refused by the hold, and by the writer', async () => {
  const organization = await books.organization(1_000n * perToken)
  const admission = await admitted(organization, 10n * perToken)
  const prepared = await prepare(till, admission, chatTerms(PRICE, ROOM), delivered(1))
  const tooMuch = { ...prepared.charge, costMicrocents: admission.hold.microcents + 1n }
  expect(() => commit(till, { ...prepared, charge: tooMuch })).toThrow('more than was held')
  expect(() => till.writer.post(tooMuch, till.share(organization))).toThrow('more than was held')
  expect(admission.hold.isOpen).toBe(true)
  admission.hold.release()
  expect(await books.verify()).toEqual([])
})
