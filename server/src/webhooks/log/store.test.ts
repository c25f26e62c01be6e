/** The cost of one organization's questions, and of a sweep's drops, by itself, however much others have. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openWebhookHouse, type WebhookHouse } from '../../../test/webhookHouse.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import { SECOND_MS, toTimestamp } from '../../lib/time.ts'
import type { Place } from '../pages/place.ts'
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

const ENDPOINT = crypto.randomUUID()

/** An organization with 2,000 deliveries, of which the 200th, the 500th, where a page may stop, and the 1,990th are wanted. */
async function organizationOfFew() {
  const other = await house.organization()
  const rows = await house.database.query<{ id: string }>(
    `with events as (
       insert into webhook_events (id, organization_id, type, body, created_at, written_by)
       select gen_random_uuid(), $1::uuid, 'video.failed', '{}', $2::timestamptz + interval '1 day' - n * interval '1 second', '1'
       from generate_series(1, 2000) n returning id, created_at
     ), numbered as (
       select id, created_at, row_number() over (order by created_at desc) in (200, 500, 1990) as is_wanted from events
     ), made as (
       insert into webhook_deliveries (id, organization_id, endpoint_id, event_id, state, attempts, attempts_before_round,
         due_at, is_new, created_at)
       select gen_random_uuid(), $1::uuid, case when is_wanted then $3::uuid else gen_random_uuid() end, id,
         case when is_wanted then 'dead' else 'delivered' end, 1, 0, null, false, created_at
       from numbered returning id, state, created_at
     )
     select id from made where state = 'dead' order by created_at desc`,
    [other, toTimestamp(house.clock.now()), ENDPOINT],
  )
  return { other, wanted: rows.map(({ id }) => id) }
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
    expect(await readBy(tx, () => listDeliveriesAfter(tx, asked, null, 51, 10_000))).toBeLessThan(100)
  })
})

test('a list of a state or an endpoint looks at so many deliveries a page, and goes on behind them to the last', async () => {
  const { other, wanted } = await organizationOfFew()
  const asked = { organizationId: other, state: null, endpointId: null, eventId: null }
  for (const filter of [
    { state: 'dead' },
    { endpointId: ENDPOINT },
    { state: 'dead', endpointId: ENDPOINT },
  ] as const) {
    const found: string[] = []
    let pages = 0
    for (let after: Place | null = null; pages === 0 || after !== null; pages += 1) {
      const behind: Place | null = after
      after = await house.database.transaction(async (tx) => {
        await tx.query(PLAN_FOR_ALL)
        let end: Place | null = null
        const read = await readBy(tx, async () => {
          const { deliveries, stoppedAt } = await listDeliveriesAfter(tx, { ...asked, ...filter }, behind, 51, 500)
          found.push(...deliveries.map(({ id }) => id))
          end = stoppedAt
        })
        expect(read).toBeLessThan(1_100)
        return end
      })
    }
    expect(found).toEqual(wanted)
    expect(pages).toBe(5)
  }
})

test('a page that is full ends with its last delivery, though more were looked at', async () => {
  const { other, wanted } = await organizationOfFew()
  const asked = { organizationId: other, state: 'dead', endpointId: null, eventId: null } as const
  const { deliveries, stoppedAt } = await listDeliveriesAfter(house.database, asked, null, 2, 2_000)
  expect([deliveries.map(({ id }) => id), stoppedAt]).toEqual([wanted.slice(0, 2), null])
})

test('a sweep of events looks at the oldest, not at all deliveries', async () => {
  await house.database.transaction(async (tx) => {
    await tx.query(PLAN_FOR_ALL)
    const beforeMs = house.clock.now() + OLD * SECOND_MS
    expect(await readBy(tx, () => dropBefore(tx, 'events', beforeMs, 1_000))).toBeLessThan(3 * OLD)
  })
})
