import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import { startPair } from './firstStarts.ts'

const LIMIT_MS = 120_000

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

test.each([1, 2, 3])(
  'two gateways that start together on one empty database both serve, with one organization and one key: pair %p',
  async () => {
    expect.hasAssertions()
    await startPair(fresh)
  },
  LIMIT_MS,
)
