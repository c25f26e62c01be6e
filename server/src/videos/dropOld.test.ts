/** Rows of jobs that have ended go after their time; their charges and usage stay. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import { DAY_MS, HOUR_MS, toTimestamp } from '../lib/time.ts'
import { dropOldVideos } from './dropOld.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import type { Video } from './job/video.ts'
import { startNext } from './queue/start.ts'
import { forgetArtifact } from './store.ts'
import { accept, cancel, complete, fail, retire } from './transitions.ts'

const CENT = 1_000_000n
const KEY = '00000000-0000-4000-8000-000000000001'
const NEVER = new AbortController().signal
const RETENTION_DAYS = 90
const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30))

let house: VideoHouse
let process: VideoDependencies
beforeAll(async () => {
  house = await openVideoHouse(clock, { concurrency: 1_000 })
  process = house.process()
}, 60_000)
afterAll(() => house.close())

async function inProgress(organizationId: string): Promise<Video> {
  const created = await house.create(organizationId)
  const taken = (await startNext(process, 'svc/film', 1_000, NEVER)).find(({ video }) => video.id === created.id)
  const accepted = taken && (await accept(process, taken.video, 'job', clock.now()))
  if (accepted == null) throw new Error('it was not accepted')
  return accepted
}

async function completed(organizationId: string): Promise<Video> {
  const done = await complete(process, await inProgress(organizationId), { bytes: 1, measuredSeconds: 3 })
  if (done === null) throw new Error('it was not completed')
  return done
}

const idsOf = async (organizationId: string) => {
  const rows = await house.database.query<{ id: string }>('select id from videos where organization_id = $1::uuid', [
    organizationId,
  ])
  return rows.map(({ id }) => id)
}

const drop = () => dropOldVideos(process, RETENTION_DAYS, () => false)

test('a job that has ended goes after its days, and its charge stays', async () => {
  const organizationId = await house.organization(10_000n * CENT)
  const expired = await completed(organizationId)
  const cancelled = await house.create(organizationId)
  await cancel(process, cancelled.id, organizationId)
  await house.database.query('update videos set due_at = null where id = $1::uuid', [cancelled.id])
  await fail(process, await inProgress(organizationId), 'upstream_error', false)
  // These stay: one has its file yet, one is to be cancelled at its provider, one waits.
  const withFile = await completed(organizationId)
  const told = await house.create(organizationId)
  await cancel(process, told.id, organizationId)
  const waiting = await house.create(organizationId)
  await clock.turn(DAY_MS)
  await retire(process, await house.find(expired))
  await forgetArtifact(house.database, expired)
  await clock.turn((RETENTION_DAYS - 1) * DAY_MS)
  expect(await drop()).toBe(0)
  await clock.turn(1)
  expect(await drop()).toBe(3)
  expect((await idsOf(organizationId)).toSorted()).toEqual([withFile.id, told.id, waiting.id].toSorted())
  const charges = await house.database.query<{ id: string }>(
    'select id from charges where organization_id = $1::uuid',
    [organizationId],
  )
  expect(charges.map(({ id }) => id).toSorted()).toEqual([expired.id, withFile.id].toSorted())
  expect(await house.disagreements()).toEqual([])
})

test('many are dropped in batches, and none after the process is to stop', async () => {
  const organizationId = await house.organization(0n)
  await insertCancelled(organizationId, 2_500, clock.now() - (RETENTION_DAYS + 1) * DAY_MS)
  let asked = 0
  const isStopping = () => {
    asked += 1
    return asked > 2
  }
  expect(await dropOldVideos(process, RETENTION_DAYS, isStopping)).toBe(2_000)
  expect(await drop()).toBe(500)
})

test('of jobs that cost nothing an organization keeps its newest 1,000, and all of the last hour', async () => {
  const organizationId = await house.organization(10_000n * CENT)
  await insertCancelled(organizationId, 1_120, clock.now() - 2 * HOUR_MS)
  await insertCancelled(organizationId, 30, clock.now() - HOUR_MS / 2)
  const counts: number[] = []
  for (let time = 0; time < 4; time += 1) {
    await house.create(organizationId)
    counts.push((await idsOf(organizationId)).length - (time + 1))
  }
  expect(counts).toEqual([1_100, 1_050, 1_030, 1_030])
  expect(await house.disagreements()).toEqual([])
})

async function insertCancelled(organizationId: string, many: number, createdAtMs: number): Promise<void> {
  await house.database.query(
    `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, seconds, status)
     select gen_random_uuid(), $1::uuid, $2::uuid, $3::timestamptz - n * interval '1 millisecond', 'svc/film', 'serverless',
       '\\x00', 0, 1, 'cancelled' from generate_series(1, $4::integer) n`,
    [organizationId, KEY, toTimestamp(createdAtMs), many],
  )
}
