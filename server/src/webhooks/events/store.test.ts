/** The cost of a stream: it reads the events that it sends, wherever a client lets it begin. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { SILENCE } from '../../../test/silence.ts'
import { openWebhookHouse, type WebhookHouse } from '../../../test/webhookHouse.ts'
import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import { createFollower } from './follow.ts'
import { readSnapshot } from './store.ts'

const EVENTS = 20_000
/** Transactions that a client calls open. */
const OPEN = 500
const LOOKS = 5

let house: WebhookHouse
beforeAll(async () => {
  house = await openWebhookHouse()
})
afterAll(() => house.close())

interface Cost {
  rows: number
  lookups: number
}

/** A database that adds to `cost` the entries that it read of events and their indexes, and how often it entered an index. */
function counting(cost: Cost): Queryable {
  const read = async (tx: Transaction) => {
    const [row] = await tx.query<{ rows: bigint; lookups: bigint }>(
      `select seq_tup_read + idx_tup_fetch + (
         select coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0)::bigint from pg_stat_user_indexes
         where relname = 'webhook_events'
       ) as rows, idx_scan as lookups from pg_stat_xact_user_tables where relname = 'webhook_events'`,
    )
    return { rows: Number(row?.rows), lookups: Number(row?.lookups) }
  }
  return {
    query: (text, parameters) =>
      house.database.transaction(async (tx) => {
        // The plan that a server comes to after some requests.
        await tx.query('set local plan_cache_mode = force_generic_plan')
        const before = await read(tx)
        const rows = await tx.query(text, parameters)
        const after = await read(tx)
        cost.rows += after.rows - before.rows
        cost.lookups += after.lookups - before.lookups
        return rows as never
      }),
  }
}

test.each([
  ['no transaction', 0],
  ['many transactions', OPEN],
])('a made-up start with %s open reads no event that it does not send', async (_name, openCount) => {
  const { database, clock } = house
  const organizationId = await house.organization()
  await database.query(
    `insert into webhook_events (id, organization_id, type, body, created_at, written_by)
     select gen_random_uuid(), $1::uuid, 'video.completed', '{}', $2::timestamptz, (n % 300 + 3)::text::xid8
     from generate_series(1, ${EVENTS}) n`,
    [organizationId, toTimestamp(clock.now())],
  )
  await database.query('analyze webhook_events')
  // Behind all that were written: from here to the next there are no events.
  for (let count = 0; count < OPEN; count += 1) await database.query('select pg_current_xact_id()')
  const next = Number((await readSnapshot(database)).split(':')[1])
  const open = Array.from({ length: openCount }, (_, index) => next - openCount + index)
  const cost: Cost = { rows: 0, lookups: 0 }
  const gone = new AbortController()
  const follower = createFollower({ database: counting(cost), clock, log: SILENCE, isStopping: () => false })
  let looks = 0
  const isStillAllowed = async () => {
    looks += 1
    return true
  }
  const followed = await follower.follow(organizationId, `start-1:${next}:${open.join(',')}`, {
    gone: gone.signal,
    isStillAllowed,
  })
  if (!followed.ok) throw new Error(followed.refusal.message)
  const coming = followed.value.events.next()
  while (looks < LOOKS) await clock.turn(1_000)
  const event = await house.publish(organizationId)
  let isHere = false
  void coming.finally(() => {
    isHere = true
  })
  while (!isHere) await clock.turn(1_000)
  expect((await coming).value?.id).toBe(event)
  await followed.value.events.return()
  expect(cost.rows).toBeLessThan(100)
  expect(cost.lookups).toBeLessThan(openCount + 10 * looks)
})
