/** A deletion leaves nothing behind that would wait for ever, and keeps nobody waiting. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openWebhookHouse, type WebhookHouse } from '../../../test/webhookHouse.ts'
import { systemRandom } from '../../infra/random.ts'
import { sendTest } from '../log/sendTest.ts'
import { noteEvent } from '../publish.ts'
import { removeEndpoint } from './remove.ts'
import { deleteEndpointRow, holdEndpoint } from './store.ts'

let house: WebhookHouse
beforeAll(async () => {
  house = await openWebhookHouse()
})
afterAll(() => house.close())

const remove = (organizationId: string, id: string) =>
  removeEndpoint({ database: house.database, forgetAnswer: async () => {} }, organizationId, id, async () => [])

async function countDeliveries(endpointId: string): Promise<number> {
  const rows = await house.database.query('select 1 from webhook_deliveries where endpoint_id = $1::uuid', [endpointId])
  return rows.length
}

test('a sample that is asked for while its endpoint is deleted is deleted with it', async () => {
  const organizationId = await house.organization()
  const { id } = await house.endpoint(organizationId, 'http://127.0.0.1:1/')
  let isRemoved = false
  let removing: Promise<unknown> = Promise.resolve()
  const sent = await sendTest(
    {
      database: house.database,
      clock: house.clock,
      random: systemRandom(),
      noteEvent,
      limits: { testsPerMinute: 30, pendingMost: 10_000 },
      refuseUnfunded: async () => null,
      // Found here, and deleted before anything is noted for it, unless the deletion has to wait.
      async holdEndpoint(tx, ...which) {
        const found = await holdEndpoint(tx, ...which)
        removing = remove(...which).then(() => {
          isRemoved = true
        })
        while (!isRemoved && !(await isSomebodyWaiting()));
        return found
      },
    },
    { organizationId, endpointId: id, type: undefined },
    async () => [],
  )
  await removing
  expect([sent.ok, isRemoved]).toEqual([true, true])
  expect(await countDeliveries(id)).toBe(0)
})

async function isSomebodyWaiting(): Promise<boolean> {
  const rows = await house.database.query(
    "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
  )
  return rows.length > 0
}

interface Reads {
  readonly seq_scan: bigint
  readonly tuples: bigint
}

/** Of the connection so far. */
const READS = `select seq_scan, seq_tup_read + idx_tup_fetch as tuples from pg_stat_xact_user_tables
  where relname = 'webhook_deliveries'`

test('a deletion reads what is on its way to the endpoint, and not the deliveries of everybody', async () => {
  const organizationId = await house.organization()
  const { id } = await house.endpoint(organizationId, 'http://127.0.0.1:1/')
  await house.database.query(
    `insert into webhook_deliveries (id, organization_id, endpoint_id, event_id, state, attempts, attempts_before_round,
       due_at, is_new, created_at)
     select gen_random_uuid(), $1::uuid, case when n <= 4 then $2::uuid else gen_random_uuid() end, gen_random_uuid(),
       case when n <= 3 then 'pending' else 'delivered' end, 1, 0, '2026-01-01Z', n = 1, '2026-01-01Z'
     from generate_series(1, 20000) n`,
    [organizationId, id],
  )
  await house.database.query('analyze webhook_deliveries')
  await house.database.transaction(async (tx) => {
    const [before] = await tx.query<Reads>(READS)
    await deleteEndpointRow(tx, organizationId, id)
    const [after] = await tx.query<Reads>(READS)
    expect(after?.seq_scan).toBe(before?.seq_scan ?? -1n)
    expect(Number(after?.tuples) - Number(before?.tuples)).toBeLessThan(10)
  })
  // The log keeps what was delivered.
  expect(await countDeliveries(id)).toBe(1)
})
