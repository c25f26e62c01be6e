/** Every move from every state: those of the table, and all others, which must change nothing. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import { artifactName, isTerminal, MOVES, type MoveName, STATUSES, type Video, type VideoStatus } from './job/video.ts'
import { startNext } from './queue/start.ts'
import { accept, cancel, complete, fail, lapse, putBack, retarget, retire } from './transitions.ts'

const CENT = 1_000_000n
const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30))
let house: VideoHouse
let means: VideoDependencies
let organization: string
beforeAll(async () => {
  house = await openVideoHouse(clock, { concurrency: 1_000 })
  means = house.process()
  organization = await house.organization(1_000_000n * CENT)
})
afterAll(() => house.close())

const NEVER = new AbortController().signal
const SUBMISSION = { id: '01900000-0000-7000-8000-000000000000', provider: 'other', model: 'film' }

const DO: Readonly<Record<MoveName, (video: Video) => Promise<Video | null>>> = {
  take: async (video) =>
    (await startNext(means, 'svc/film', 1_000, NEVER)).find((each) => each.video.id === video.id)?.video ?? null,
  retarget: (video) => retarget(means, video, SUBMISSION, clock.now()),
  putBack: (video) => putBack(means, video),
  accept: (video) => accept(means, video, 'job', clock.now()),
  complete: (video) => complete(means, video, { bytes: 9, measuredSeconds: 2.6 }),
  fail: (video) => fail(means, video, 'upstream_error', false),
  cancel: (video) => cancel(means, video.id, organization),
  lapse: (video) => lapse(means, video),
  retire: (video) => retire(means, video),
}

/** The way to each state, by the moves themselves. */
const WAY: Readonly<Record<VideoStatus, readonly MoveName[]>> = {
  queued: [],
  submitting: ['take'],
  in_progress: ['take', 'accept'],
  completed: ['take', 'accept', 'complete'],
  failed: ['take', 'fail'],
  cancelled: ['cancel'],
  expired: ['lapse'],
}

async function jobIn(status: VideoStatus): Promise<Video> {
  let video = await house.create(organization)
  for (const move of WAY[status]) {
    const moved = await DO[move](video)
    if (moved === null) throw new Error(`${move} was refused on the way to ${status}`)
    video = moved
  }
  expect(video.status).toBe(status)
  return video
}

async function traces({ id }: Video) {
  const [row] = await house.database.query<{ row: string; holds: bigint; charges: bigint }>(
    `select v::text as row, (select count(*) from holds where id = v.id) as holds,
       (select count(*) from charges where id = v.id) as charges from videos v where id = $1::uuid`,
    [id],
  )
  return { ...row, events: await house.events(id) }
}

describe.each([...STATUSES])('a job that is %s', (status) => {
  test.each(Object.keys(MOVES) as MoveName[])('%s', async (name) => {
    const video = await jobIn(status)
    const before = await traces(video)
    const moved = await DO[name](video)
    const { from, to } = MOVES[name]
    if (!(from as readonly VideoStatus[]).includes(status)) {
      expect(moved).toBeNull()
      expect(await traces(video)).toEqual(before)
      return
    }
    expect(moved?.status).toBe(to)
    const after = await traces(video)
    expect(Number(after.holds)).toBe(isTerminal(to) ? 0 : 1)
    const wasCompleted = status === 'completed' || to === 'completed'
    expect(Number(after.charges)).toBe(wasCompleted ? 1 : 0)
    expect(after.events).toEqual(wasCompleted ? ['video.completed'] : to === 'failed' ? ['video.failed'] : [])
    expect(moved?.prompt === null).toBe(isTerminal(to))
  })

  test('is nobody else’s: a fenced move of another attempt is refused', async () => {
    const video = await jobIn(status)
    const before = await traces(video)
    for (const [name, { isFenced }] of Object.entries(MOVES) as [MoveName, { isFenced: boolean }][]) {
      if (!isFenced) continue
      for (const attempt of [video.attempt - 1, video.attempt + 1]) {
        expect([name, await DO[name]({ ...video, attempt })]).toEqual([name, null])
      }
    }
    expect(await cancel(means, video.id, await house.organization(0n))).toBeNull()
    expect(await traces(video)).toEqual(before)
  })
})

test('the billed length is measured, rounded to the nearest second, at least one and never more than was asked for', async () => {
  const billed: [measured: number, seconds: number, cents: bigint][] = [
    [0.01, 1, 8n],
    [0.5, 1, 8n],
    [1.49, 1, 8n],
    [1.5, 2, 15n],
    [3.5, 4, 30n],
    [4.4, 4, 30n],
    [900, 4, 30n],
  ]
  for (const [measuredSeconds, seconds, cents] of billed) {
    const video = await jobIn('in_progress')
    const done = await complete(means, video, { bytes: 9, measuredSeconds })
    expect(done).toMatchObject({ seconds, costMicrocents: cents * CENT, artifact: artifactName(video) })
  }
  expect(await house.disagreements()).toEqual([])
})
