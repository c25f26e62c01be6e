import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Books, openBooks } from '../../../test/books.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { systemRandom } from '../../infra/random.ts'
import { readBalance } from '../admission/balance/balance.ts'
import { adjustBalance } from '../ledger/adjust.ts'
import { refundCharge } from './refund.ts'

const clock = new TurnedClock(Date.UTC(2030, 0, 15, 12))
const random = systemRandom()

let books: Books
beforeAll(async () => {
  books = await openBooks(clock)
}, 60_000)
afterAll(() => books.drop())

const refund = (chargeId: string, amountMicrocents: bigint | null = null) =>
  refundCharge(books.database, random, { chargeId, amountMicrocents, note: null, atMs: clock.now() })

async function rollups(organizationId: string): Promise<unknown> {
  return await books.database.query(
    `select requests, cost_microcents from usage_hours where organization_id = $1::uuid`,
    [organizationId],
  )
}

test('a refund gives back exactly what was charged, once, and leaves charge and usage as they were', async () => {
  const organization = await books.organization(1_000_000_000n)
  const charge = await books.post(organization, clock.now())
  const usage = await rollups(organization)
  expect(await refund(charge.chargeId)).toEqual({
    kind: 'refunded',
    organizationId: organization,
    amountMicrocents: charge.costMicrocents,
    source: `refund:${charge.chargeId}`,
  })
  expect(await refund(charge.chargeId, 1n)).toEqual({ kind: 'repeated' })
  expect(await readBalance(books.database, organization)).toBe(1_000_000_000n)
  expect(await books.spent(organization)).toEqual({ microcents: charge.costMicrocents, charges: 1 })
  expect(await rollups(organization)).toEqual(usage)
  expect(await books.verify()).toEqual([])
})

test('of many refunds of one charge at once one is made', async () => {
  const organization = await books.organization(1_000_000_000n)
  const charge = await books.post(organization, clock.now())
  const results = await Promise.all([1n, 2n, 3n, 4n].map((amount) => refund(charge.chargeId, amount)))
  const made = results.flatMap((result) => (result.kind === 'refunded' ? [result.amountMicrocents] : []))
  expect(made).toHaveLength(1)
  const kept = 1_000_000_000n - charge.costMicrocents + (made[0] ?? 0n)
  expect(await readBalance(books.database, organization)).toBe(kept)
})

test('never more than was charged, and nothing of what is no charge', async () => {
  const organization = await books.organization(1_000_000_000n)
  const charge = await books.post(organization, clock.now())
  const { costMicrocents } = charge
  expect(await refund(charge.chargeId, costMicrocents + 1n)).toEqual({ kind: 'too_much', costMicrocents })
  expect(await refund('00000000-0000-7000-8000-000000000000')).toEqual({ kind: 'unknown' })
  expect(await refund('00000000-0000-4000-8000-000000000000')).toEqual({ kind: 'unknown' })
  const usage = { promptTokens: 0, cachedPromptTokens: 0, completionTokens: 0 }
  const free = await books.post(organization, clock.now(), { usage, costMicrocents: 0n })
  expect(await refund(free.chargeId)).toEqual({ kind: 'nothing' })
  expect(await readBalance(books.database, organization)).toBe(1_000_000_000n - costMicrocents)
  expect((await refund(charge.chargeId, costMicrocents)).kind).toBe('refunded')
})

test('an adjustment moves the balance once for each source, below nothing too', async () => {
  const organization = await books.organization(5n)
  const adjustment = { organizationId: organization, source: 'adjustment:a', note: 'because', atMs: clock.now() }
  expect(await adjustBalance(books.database, random, { ...adjustment, amountMicrocents: -8n })).toBe(true)
  expect(await adjustBalance(books.database, random, { ...adjustment, amountMicrocents: -8n })).toBe(false)
  expect(await readBalance(books.database, organization)).toBe(-3n)
  expect(await books.verify()).toEqual([])
})
