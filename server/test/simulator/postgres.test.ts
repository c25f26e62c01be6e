/** The first seeds of the simulator on a real server, where statements of several processes are under way at once. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { findImbalances } from '../../src/billing/charges/store.ts'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import { PostgresEngine } from './postgresEngine.ts'
import { runMany } from './runMany.ts'

/** A few of each kind of trouble. */
const SEEDS = 8

let fresh: FreshDatabase
let engine: PostgresEngine
beforeAll(async () => {
  fresh = await freshDatabase()
  engine = new PostgresEngine(fresh.url)
})
afterAll(async () => {
  await engine.close()
  await fresh.drop()
})

test('the books of PostgreSQL hold through every history, and everybody is answered', async () => {
  const emptied = async () => {
    expect(await findImbalances(fresh.database)).toEqual([])
    await engine.reset()
    return engine
  }
  const { failures, tightest } = await runMany(1, (count) => count < SEEDS, 1, emptied)
  expect(await findImbalances(fresh.database)).toEqual([])
  console.log(`seeds: ${SEEDS} of the simulator on PostgreSQL, ${failures.length} failed; ${tightest}`)
  expect(failures).toEqual([])
}, 120_000)
