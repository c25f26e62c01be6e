import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { FreshDatabase } from '../../../test/postgres.ts'
import { freshDatabase } from '../../../test/postgres.ts'
import { systemClock } from '../clock.ts'
import { refuseTransactionPooler } from './pooler.ts'

let fresh: FreshDatabase

beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

test('PostgreSQL itself is not taken for a pooler', async () => {
  expect(await refuseTransactionPooler(fresh.url, systemClock)).toBeUndefined()
})
