/** A failed job costs nothing and leaves an event; an organization of which many fail has no new jobs for a while. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import { HOUR_MS, MINUTE_MS, toTimestamp } from '../lib/time.ts'
import { createVideo, newVideo } from './create.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import type { Video } from './job/video.ts'
import { startNext } from './queue/start.ts'
import { accept, cancel, fail } from './transitions.ts'

const CENT = 1_000_000n
const KEY = '00000000-0000-4000-8000-000000000001'
const NEVER = new AbortController().signal
const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30))

let house: VideoHouse
/** Two processes of whose organizations three jobs an hour may fail. */
let one: VideoDependencies
let other: VideoDependencies
let organization: string
beforeAll(async () => {
  house = await openVideoHouse(clock, { concurrency: 1_000 })
  one = house.process({ failuresPerHour: 3 })
  other = house.process({ failuresPerHour: 3 })
})
beforeEach(async () => {
  organization = await house.organization(1_000n * CENT)
})
afterAll(() => house.close())

async function submitting(): Promise<Video> {
  const created = await house.create(organization)
  const taken = (await startNext(one, 'svc/film', 1_000, NEVER)).find(({ video }) => video.id === created.id)
  if (taken === undefined) throw new Error('its turn did not come')
  return taken.video
}

async function inProgress(): Promise<Video> {
  const accepted = await accept(one, await submitting(), 'job', clock.now())
  if (accepted === null) throw new Error('it was not accepted')
  return accepted
}

/** Returns the status of the video that was made, or the seconds to wait. */
async function create(by: VideoDependencies, of = organization): Promise<string | number> {
  const caller = { organizationId: of, keyId: KEY, traceparent: null }
  const job = newVideo(by, caller, house.resolved, { prompt: 'x', seconds: 2, size: null })
  const made = await createVideo(by, caller, job)
  if (made.ok) return made.value.status
  expect(made.refusal).toMatchObject({
    code: 'rate_limit_exceeded',
    message: expect.stringContaining('3 videos failed'),
  })
  return made.refusal.retryAfterSeconds ?? 'at once'
}

test('after so many failures an hour, every process refuses until the oldest of them is more than an hour old', async () => {
  expect((await fail(one, await submitting(), 'content_policy', false))?.status).toBe('failed')
  await clock.turn(10 * MINUTE_MS)
  expect((await fail(other, await inProgress(), 'upstream_error', true))?.status).toBe('failed')
  expect([await create(one), await create(other)]).toEqual(['queued', 'queued'])
  await clock.turn(10 * MINUTE_MS)
  await fail(one, await inProgress(), 'invalid_output', false)
  const restarted = house.process({ failuresPerHour: 3 })
  for (const each of [one, other, restarted]) expect(await create(each)).toBe(40 * 60 + 1)
  expect(await create(one, await house.organization(1_000n * CENT))).toBe('queued')
  await clock.turn(40 * MINUTE_MS)
  expect(await create(one)).toBe(1)
  await clock.turn(1)
  expect([await create(one), await create(other)]).toEqual(['queued', 'queued'])
  expect(await house.disagreements()).toEqual([])
})

test('a job counts once, and a cancelled one does not; those that were accepted before still fail', async () => {
  const [first, second, third, last] = [await inProgress(), await inProgress(), await inProgress(), await inProgress()]
  const times = await Promise.all([one, other, one].map((by) => fail(by, first, 'upstream_error', false)))
  expect(times.filter((moved) => moved !== null)).toHaveLength(1)
  await fail(one, second, 'upstream_error', false)
  expect((await cancel(one, (await inProgress()).id, organization))?.status).toBe('cancelled')
  expect(await create(one)).toBe('queued')
  await fail(one, third, 'upstream_error', false)
  expect(await create(one)).toBe(3_601)
  expect((await fail(one, last, 'upstream_error', false))?.status).toBe('failed')
})

test('failures that count are kept, however long ago their jobs were made, and no more are read than the limit', async () => {
  const hourAgo = toTimestamp(clock.now() - HOUR_MS)
  await house.database.query(
    `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, seconds,
       status, failed_at)
     select gen_random_uuid(), $1::uuid, $2::uuid, $3::timestamptz - n * interval '1 second', 'svc/film', 'serverless', '',
       1, 1, 'failed', case when n between 1001 and 1010 then $3::timestamptz + interval '30 minutes' else $3::timestamptz - interval '1 day' end
     from generate_series(1, 20000) n`,
    [organization, KEY, hourAgo],
  )
  await house.database.query('analyze videos')
  const counted = () =>
    house.database.query('select id from videos where organization_id = $1::uuid and failed_at > $2::timestamptz', [
      organization,
      hourAgo,
    ])
  await house.create(organization)
  expect(await counted()).toHaveLength(10)
  expect(await create(one)).toBe(30 * 60 + 1)
  const plan = await house.database.query<{ 'QUERY PLAN': string }>(
    `explain (analyze, timing off, summary off) select failed_at from videos
     where organization_id = '${organization}' and failed_at >= '${hourAgo}' order by failed_at desc limit 1 offset 2`,
  )
  expect(plan.map((row) => row['QUERY PLAN']).join('\n')).toMatch(/videos_failed .*rows=3(\.00)? loops=1/)
})
