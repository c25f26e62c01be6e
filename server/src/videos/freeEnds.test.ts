/** Jobs that end without a charge: an organization of which too many were cancelled in progress, or failed, has no new ones for a while. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS, toTimestamp } from '../lib/time.ts'
import { createVideo, newVideo } from './create.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import type { Video } from './job/video.ts'
import { startNext } from './queue/start.ts'
import { accept, cancel, complete, fail } from './transitions.ts'

const CENT = 1_000_000n
const KEY = '00000000-0000-4000-8000-000000000001'
const MOST = { cancellationsPerHour: 3, failuresPerHour: 3 }
const NEVER = new AbortController().signal
const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30))

let house: VideoHouse
/** Two processes of whose organizations three jobs an hour may be cancelled in progress, and three may fail. */
let one: VideoDependencies
let other: VideoDependencies
let organization: string
beforeAll(async () => {
  house = await openVideoHouse(clock, { concurrency: 1_000 })
  one = house.process(MOST)
  other = house.process(MOST)
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

async function cancelInProgress(times: number, by = one): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    const cancelled = await cancel(by, (await inProgress()).id, organization)
    expect(cancelled?.status).toBe('cancelled')
  }
}

/** Returns the status of the video that was made, or the seconds to wait. */
async function create(by: VideoDependencies, of = organization): Promise<string | number> {
  const caller = { organizationId: of, keyId: KEY, traceparent: null }
  const job = newVideo(by, caller, house.resolved, { prompt: 'x', seconds: 2, size: null })
  const made = await createVideo(by, caller, job)
  if (made.ok) return made.value.status
  expect(made.refusal.code).toBe('rate_limit_exceeded')
  expect(made.refusal.message).toMatch(/cancelled 3 videos in progress|3 videos failed/)
  return made.refusal.retryAfterSeconds ?? 'at once'
}

describe('cancelled in progress', () => {
  test('after so many cancellations in progress an hour, every process refuses until the oldest is more than an hour old', async () => {
    await cancelInProgress(1)
    await clock.turn(10 * MINUTE_MS)
    await cancelInProgress(1, other)
    expect([await create(one), await create(other)]).toEqual(['queued', 'queued'])
    await clock.turn(10 * MINUTE_MS)
    await cancelInProgress(1)
    expect([await create(one), await create(other)]).toEqual([40 * 60 + 1, 40 * 60 + 1])
    await clock.turn(40 * MINUTE_MS - SECOND_MS / 2)
    expect([await create(one), await create(other)]).toEqual([1, 1])
    await clock.turn(SECOND_MS / 2)
    expect([await create(one), await create(other)]).toEqual([1, 1])
    await clock.turn(1)
    expect([await create(one), await create(other)]).toEqual(['queued', 'queued'])
  })

  test('a restart forgets nothing, another organization is not concerned, and nothing is held or made for who is refused', async () => {
    await cancelInProgress(3)
    const rows = () => house.database.query('select id from videos where organization_id = $1::uuid', [organization])
    const before = await rows()
    expect(await create(house.process(MOST))).toBe(3_601)
    expect(await rows()).toEqual(before)
    expect(await create(one, await house.organization(1_000n * CENT))).toBe('queued')
    expect(await house.disagreements()).toEqual([])
  })

  test('cancelling is never refused, however often; then the wait is until fewer than the limit are left of the hour', async () => {
    const running = [await inProgress(), await inProgress(), await inProgress(), await inProgress(), await inProgress()]
    for (const { id } of running) {
      expect(await cancel(one, id, organization)).toMatchObject({ status: 'cancelled', costMicrocents: null })
      await clock.turn(MINUTE_MS)
    }
    // Of five cancellations, the third counts: it is three minutes old.
    expect(await create(one)).toBe(57 * 60 + 1)
    await clock.turn(57 * MINUTE_MS + 1)
    expect(await create(one)).toBe('queued')
  })

  test('a job counts once, and only when a provider may have had it as it was cancelled', async () => {
    await cancelInProgress(1)
    const queued = await house.create(organization)
    expect((await cancel(one, queued.id, organization))?.status).toBe('cancelled')
    expect((await cancel(one, (await submitting()).id, organization))?.status).toBe('cancelled')
    const done = await complete(one, await inProgress(), { bytes: 9, measuredSeconds: 2 })
    expect(await cancel(one, done?.id ?? '', organization)).toBeNull()
    const failed = await fail(one, await inProgress(), 'upstream_error', false)
    expect(await cancel(one, failed?.id ?? '', organization)).toBeNull()
    expect(await create(one)).toBe('queued')
    const { id } = await inProgress()
    const times = await Promise.all([one, other, one].map((by) => cancel(by, id, organization)))
    expect(times.filter((moved) => moved !== null)).toHaveLength(1)
    expect(await create(one)).toBe(3_601)
  })

  test('of very many cancellations no more are read than the limit, by their index', async () => {
    await house.database.query(
      `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, seconds,
         status, cancelled_in_progress_at)
       select gen_random_uuid(), $1::uuid, $2::uuid, t, 'svc/film', 'serverless', '', 1, 1, 'cancelled', t
       from (select $3::timestamptz - n * interval '1 second' as t from generate_series(1, 20000) n) s`,
      [organization, KEY, new Date(clock.now()).toISOString()],
    )
    await house.database.query('analyze videos')
    expect(await create(one)).toBe(HOUR_MS / SECOND_MS - 3 + 1)
    const plan = await house.database.query<{ 'QUERY PLAN': string }>(
      `explain (analyze, timing off, summary off) select cancelled_in_progress_at from videos
       where organization_id = '${organization}' and cancelled_in_progress_at >= '${new Date(clock.now() - HOUR_MS).toISOString()}'
       order by cancelled_in_progress_at desc limit 1 offset 2`,
    )
    const text = plan.map((row) => row['QUERY PLAN']).join('\n')
    expect(text).toMatch(/videos_cancelled_in_progress .*rows=3(\.00)? loops=1/)
  })
})

describe('failed', () => {
  test('after so many failures an hour, every process refuses until the oldest of them is more than an hour old', async () => {
    expect((await fail(one, await submitting(), 'content_policy', false))?.status).toBe('failed')
    await clock.turn(10 * MINUTE_MS)
    expect((await fail(other, await inProgress(), 'upstream_error', true))?.status).toBe('failed')
    expect([await create(one), await create(other)]).toEqual(['queued', 'queued'])
    await clock.turn(10 * MINUTE_MS)
    await fail(one, await inProgress(), 'invalid_output', false)
    const restarted = house.process(MOST)
    for (const each of [one, other, restarted]) expect(await create(each)).toBe(40 * 60 + 1)
    expect(await create(one, await house.organization(1_000n * CENT))).toBe('queued')
    await clock.turn(40 * MINUTE_MS)
    expect(await create(one)).toBe(1)
    await clock.turn(1)
    expect([await create(one), await create(other)]).toEqual(['queued', 'queued'])
    expect(await house.disagreements()).toEqual([])
  })

  test('a job counts once, and a cancelled one does not; those that were accepted before still fail', async () => {
    const [first, second, third, last] = [
      await inProgress(),
      await inProgress(),
      await inProgress(),
      await inProgress(),
    ]
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
})
