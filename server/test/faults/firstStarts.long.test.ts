import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import { startPair } from './firstStarts.ts'

const PAIRS = 50
const LIMIT_MS = 900_000

let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
}, LIMIT_MS)
afterAll(() => fresh.drop())

test(
  `of ${PAIRS} pairs of gateways that start together on an empty database none fails`,
  async () => {
    expect.hasAssertions()
    for (let pair = 1; pair <= PAIRS; pair += 1) await startPair(fresh)
    console.log(`${PAIRS} pairs of first starts`)
  },
  LIMIT_MS,
)
