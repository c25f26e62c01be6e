/** Instances of an organization that is deleted: they are charged up to that instant, and the driver deletes their machines. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { type InstanceHouse, openInstanceHouse } from '../../../test/instanceHouse.ts'
import { GPU_HOUR_MICROCENTS } from '../../../test/instanceProcess.ts'
import { until } from '../../../test/until.ts'
import { lock } from '../../billing/admission/holds/hold.ts'
import { priceInstanceLife } from '../../billing/charges/pricing.ts'
import { systemRandom } from '../../infra/random.ts'
import { lockInstance } from '../../instances/store.ts'
import { DAY_MS, SECOND_MS } from '../../lib/time.ts'
import { deleteOrganization } from './deleteOrganization.ts'
import { eraseOrganization } from './erase.ts'

const CENT = 1_000_000n
const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30, 0, 250))
let house: InstanceHouse
beforeAll(async () => {
  house = await openInstanceHouse(clock)
}, 60_000)
afterAll(() => house.drop())

const parts = () => ({ database: house.database, clock, lowBalanceMicrocents: 0n })

async function remove(organizationId: string) {
  const [row] = await house.database.query<{ name: string }>('select name from organizations where id = $1', [
    organizationId,
  ])
  const actor = { kind: 'operator', id: null, address: null } as const
  return deleteOrganization(
    { ...parts(), random: systemRandom(), paymentProvider: null, wakeJobs: () => {} },
    { organizationId, typedName: row?.name ?? '', actor, ownerId: null },
  )
}

/** Lets time pass, as processes work. */
async function live(seconds: number): Promise<void> {
  for (let left = seconds; left > 0; left -= 10) {
    await clock.turn(10 * SECOND_MS)
    await house.work()
  }
}

test('one that runs is charged up to the deletion, once, and its machine is deleted', async () => {
  const id = await house.organization(1_000n * CENT)
  const other = await house.create(await house.organization(1_000n * CENT))
  const instance = await house.create(id)
  await house.work()
  expect((await house.find(instance)).state).toBe('running')
  await live(90)
  await clock.turn(5 * SECOND_MS)
  expect(await remove(id)).toMatchObject({ ok: true, value: { ended: { instances: 1 } } })
  expect(await house.find(instance)).toMatchObject({ state: 'terminating', reason: 'deleted' })
  await live(60)
  expect((await house.find(instance)).state).toBe('terminated')
  expect(await house.charged(instance)).toMatchObject({
    seconds: 95,
    microcents: priceInstanceLife(GPU_HOUR_MICROCENTS, 95),
  })
  expect((await house.find(other)).state).toBe('running')
  expect(await house.disagreements()).toEqual([])
})

test('one that no process has billed for a day is ended too, and charged for what was held', async () => {
  const id = await house.organization(10_000n * CENT)
  const instance = await house.create(id)
  await house.work()
  await clock.turn(DAY_MS)
  expect(await remove(id)).toMatchObject({ ok: true })
  expect((await house.charged(instance)).seconds).toBe(600)
  await house.work()
  expect(await house.disagreements()).toEqual([])
})

test('none is made afterwards, and the words of the organization are erased', async () => {
  const id = await house.organization(1_000n * CENT)
  const instance = await house.create(id, { name: 'canary' })
  await remove(id)
  expect(await house.refusal(id)).toMatchObject({ code: 'not_found' })
  await eraseOrganization(parts(), id, () => {})
  expect(await house.find(instance)).toMatchObject({ name: instance.app, appUrl: null, terminalUrl: null })
  expect(
    await house.database.query("select 1 from operations where organization_id = $1 and state <> 'pending'", [id]),
  ).toEqual([])
  expect(await house.disagreements()).toEqual([])
})

/** A session of this database waits for a lock. */
const isAnyWaiting = async () =>
  (
    await house.database.query(
      "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    )
  ).length > 0

async function markDeleted(organizationId: string): Promise<void> {
  await house.database.query('update organizations set deleted_at = created_at where id = $1', [organizationId])
}

test.each([
  ['a deletion', async () => {}, async (id: string) => expect(await remove(id)).toMatchObject({ ok: true })],
  ['an erasure', markDeleted, (id: string) => eraseOrganization(parts(), id, () => {})],
])(
  '%s that also ends videos waits for a bill of an instance, and the bill never for it',
  async (_what, before, end) => {
    const id = await house.organization(1_000n * CENT)
    const instance = await house.create(id)
    await house.database.query(
      `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, seconds, status)
     values (gen_random_uuid(), $1::uuid, $1::uuid, '2031-01-01', 'svc/film', 'serverless', '', 1, 4, 'queued')`,
      [id],
    )
    await before(id)
    let ending: Promise<unknown> = Promise.resolve()
    await house.database.transaction(async (tx) => {
      await lockInstance(tx, instance.id)
      ending = end(id)
      ending.catch(() => {})
      await until(isAnyWaiting)
      await lock(tx, id)
    })
    await ending
    expect((await house.find(instance)).state).toBe('terminating')
    expect(await house.disagreements()).toEqual([])
  },
)
