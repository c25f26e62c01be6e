/** The cost of one organization's questions, and of a sweep's drops, by itself, however much others have. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openWebhookHouse, type WebhookHouse } from '../../../test/webhookHouse.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import { SECOND_MS, toTimestamp } from '../../lib/time.ts'
import { type DeliveryFilter, dropBefore, listDeliveriesAfter } from './store.ts'

/** Deliveries of another organization, a second apart, and how many of them are old. */
const OTHERS = 20_000
const OLD = 1_000

let house: WebhookHouse
beforeAll(async () => {
  house = await openWebhookHouse()
  const other = await house.organization()
  await house.database.query(
    `with events as (
       insert into webhook_events (id, organization_id, type, body, created_at, written_by)
       select gen_random_uuid(), $1::uuid, 'video.completed', '{}', $2::timestamptz + n * interval '1 second', '1'
       from generate_series(1, ${OTHERS}) n returning id, created_at
     )
     insert into webhook_deliveries (id, organization_id, endpoint_id, event_id, state, attempts, attempts_before_round,
       due_at, is_new, created_at)
     select gen_random_uuid(), $1::uuid, md5((extract(epoch from created_at)::bigint % 50)::text)::uuid, id, 'delivered', 1,
       0, null, false, created_at from events`,
    [other, toTimestamp(house.clock.now())],
  )
  await house.database.query('analyze webhook_deliveries, webhook_events')
})
afterAll(() => house.close())

/** Rows of deliveries that a connection reads while it does something. */
async function readBy(tx: Transaction, work: () => Promise<unknown>): Promise<number> {
  const count = async () => {
    const [row] = await tx.query<{ rows: bigint }>(
      `select seq_tup_read + idx_tup_fetch + (
         select coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0)::bigint from pg_stat_user_indexes
         where relname = 'webhook_deliveries'
       ) as rows from pg_stat_xact_user_tables where relname = 'webhook_deliveries'`,
    )
    return Number(row?.rows)
  }
  const before = await count()
  await work()
  return (await count()) - before
}

/** One plan for whatever is asked: the one that a server comes to after some requests. */
const PLAN_FOR_ALL = 'set local plan_cache_mode = force_generic_plan'

test.each<[string, Partial<DeliveryFilter>]>([
  ['all', {}],
  ['dead', { state: 'dead' }],
  ['of an endpoint', { endpointId: crypto.randomUUID() }],
  ['of an event', { eventId: crypto.randomUUID() }],
])("a list of an organization's deliveries, %s, reads none of the others'", async (_name, filter) => {
  const organizationId = await house.organization()
  const asked = { organizationId, state: null, endpointId: null, eventId: null, ...filter }
  await house.database.transaction(async (tx) => {
    await tx.query(PLAN_FOR_ALL)
    expect(await readBy(tx, () => listDeliveriesAfter(tx, asked, null, 51))).toBeLessThan(100)
  })
})

test('a sweep of events looks at the oldest, not at all deliveries', async () => {
  await house.database.transaction(async (tx) => {
    await tx.query(PLAN_FOR_ALL)
    const beforeMs = house.clock.now() + OLD * SECOND_MS
    expect(await readBy(tx, () => dropBefore(tx, 'events', beforeMs, 1_000))).toBeLessThan(3 * OLD)
  })
})
