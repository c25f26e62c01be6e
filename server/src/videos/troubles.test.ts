/** Jobs whose surroundings fail: the database is away, an upstream never ends, others have more to do than there is room for. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { FastClock, withFaults } from '../../test/moneyHouse.ts'
import { scriptVideos, testVideo } from '../../test/scriptedVideos.ts'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import { videoModel } from '../../test/videoProcess.ts'
import { createCatalog } from '../catalog/model.ts'
import { DEFAULT_DEADLINES } from '../catalog/upstream.ts'
import type { Database } from '../io/postgres/database.ts'
import { HOUR_MS, SECOND_MS, toTimestamp } from '../kernel/time.ts'
import { UpstreamFailure, type VideoCall } from '../upstream/spec.ts'
import { createVideo } from './create.ts'
import type { VideoDependencies } from './dependencies.ts'
import { runVideos } from './run.ts'
import { cancel } from './transitions.ts'
import type { Video, VideoStatus } from './video.ts'

const CENT = 1_000_000n
const KEY = '00000000-0000-4000-8000-000000000001'
const clock = new FastClock(Date.UTC(2031, 4, 17, 13, 30), 200)

let house: VideoHouse
beforeAll(async () => {
  house = await openVideoHouse(clock, { deadlineMs: 60_000, concurrency: 100 })
})
afterAll(() => house.close())

/** Runs one process for as long as the test of it. */
async function running<T>(more: Partial<VideoDependencies>, during: (wake: () => void) => Promise<T>): Promise<T> {
  const runner = runVideos(house.process(more))
  try {
    return await during(runner.wake)
  } finally {
    await runner.stop()
  }
}

/** The upstream of the house, its own for one test. */
function scripted(options: Parameters<typeof scriptVideos>[0] = {}) {
  const work = scriptVideos(options)
  const client = { name: 'scripted', chat: () => Promise.reject(new Error('videos only')), video: work }
  const means = { targets: () => [{ upstream: client, model: 'film' }], upstream: () => client }
  return { work, client, means }
}

const after = (milliseconds: number) => new Promise<void>((resolve) => clock.after(milliseconds, resolve))

/** Looks again and again until it is so, for an hour of the clock at most. */
async function eventually(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const endMs = clock.now() + HOUR_MS
  while (!(await isSo())) {
    if (clock.now() > endMs) throw new Error('it never came to that')
    await after(200)
  }
}

async function until(video: Video, ...statuses: VideoStatus[]): Promise<Video> {
  await eventually(async () => statuses.includes((await house.find(video)).status))
  return house.find(video)
}

describe('the database is away for longer than a lease', () => {
  const AWAY_MS = 45 * SECOND_MS

  test.each([
    ['when the upstream has taken a job', 'taken'],
    ['when the upstream would not take it', 'busy'],
  ] as const)('%s: the job goes on, and is sent once', async (_, first) => {
    const organization = await house.organization(100n * CENT)
    const { work, means } = scripted()
    let isAway = false
    work.taking = () => {
      if (work.asked > 1) return 'taken'
      isAway = true
      clock.after(AWAY_MS, () => {
        isAway = false
      })
      return first
    }
    const database = withFaults(house.database, () => (isAway ? 'before' : 'none'))
    const video = await house.create(organization)
    await running({ ...means, database }, async () => {
      expect(await until(video, 'completed', 'failed')).toMatchObject({ status: 'completed', error: null })
    })
    expect([work.asked, work.jobs.size]).toEqual([first === 'taken' ? 1 : 2, 1])
  })

  test('while the upstream still thinks about it', async () => {
    const organization = await house.organization(100n * CENT)
    const { work, means } = scripted()
    const { submit } = work
    let isAway = false
    work.submit = async (...given) => {
      isAway = true
      await after(AWAY_MS)
      isAway = false
      await after(5 * SECOND_MS)
      return submit(...given)
    }
    const database = withFaults(house.database, () => (isAway ? 'before' : 'none'))
    const video = await house.create(organization)
    await running({ ...means, database }, async () => {
      expect(await until(video, 'completed', 'failed')).toMatchObject({ status: 'completed', error: null })
    })
    expect(work.jobs.size).toBe(1)
  })

  test('at the moment at which jobs were to be sent: they wait for another turn', async () => {
    const organization = await house.organization(100n * CENT)
    const { work, means } = scripted()
    let isFirst = true
    const database: Database = {
      ...house.database,
      async transaction(act) {
        const done = await house.database.transaction(act)
        if (!isFirst) return done
        isFirst = false
        throw new Error('the connection was closed, and nobody knows what became of it')
      },
    }
    const video = await house.create(organization)
    await running({ ...means, database }, async () => {
      expect(await until(video, 'completed', 'failed')).toMatchObject({ status: 'completed' })
    })
    expect(work.asked).toBe(1)
  })

  test('for one process, and not for another that takes its job up', async () => {
    const organization = await house.organization(100n * CENT)
    const { work, means } = scripted()
    let isAway = false
    let isStarted = () => {}
    const started = new Promise<void>((resolve) => {
      isStarted = resolve
    })
    work.taking = () => {
      isAway = true
      isStarted()
      return 'taken'
    }
    const database = withFaults(house.database, () => (isAway ? 'before' : 'none'))
    const video = await house.create(organization)
    await running({ ...means, database }, async () => {
      await started
      await running(means, async () => {
        // The other has just taken it up.
        await eventually(async () => (await house.find(video)).attempt > 1)
        isAway = false
        expect(await until(video, 'completed', 'failed')).toMatchObject({ status: 'completed', error: null })
      })
    })
    expect(work.asked).toBe(1)
  })
})

test('a job that is cancelled while its upstream thinks about it is ended there, however long that takes', async () => {
  const organization = await house.organization(100n * CENT)
  const { work, means } = scripted()
  const { submit } = work
  let isStarted = () => {}
  const started = new Promise<void>((resolve) => {
    isStarted = resolve
  })
  work.submit = async (call: VideoCall, signal, connectMs) => {
    isStarted()
    await after(50 * SECOND_MS)
    // A server that was hung up on works on all the same.
    const id = await submit(call, signal, connectMs)
    signal.throwIfAborted()
    return id
  }
  const video = await house.create(organization)
  const dependencies = house.process(means)
  await running(means, async (wake) => {
    await started
    await cancel(dependencies, video.id, organization)
    wake()
    await eventually(() => [...work.jobs.values()][0]?.cancelled === true)
  })
  expect([...work.jobs.values()].map(({ cancelled }) => cancelled)).toEqual([true])
})

test('jobs do not fail one after the other while it is not known whether their upstream takes any', async () => {
  const organization = await house.organization(10_000n * CENT)
  const { work, means } = scripted()
  // As nginx says 502 while the server behind it is started again.
  work.submit = async () => {
    work.asked += 1
    throw new UpstreamFailure('unavailable', 'status 502')
  }
  for (let count = 0; count < 200; count += 1) await house.create(organization, 1)
  await running(means, () => after(100 * SECOND_MS))
  expect(work.asked).toBeGreaterThan(0)
  expect(work.asked).toBeLessThan(80)
  await house.database.query(`delete from videos where status = 'queued'`)
  await house.database.query('update video_queues set failures = 0, due_at = $1', ['epoch'])
})

test('an upstream that does not know a job for ten seconds, as behind a proxy that has just begun, is asked again', async () => {
  const organization = await house.organization(100n * CENT)
  const { work, means } = scripted()
  let begunMs: number | null = null
  work.looking = () => {
    begunMs ??= clock.now()
    return clock.now() - begunMs < 10 * SECOND_MS ? { kind: 'unknown' } : { kind: 'done' }
  }
  const video = await house.create(organization)
  await running(means, async () => {
    expect(await until(video, 'completed', 'failed')).toMatchObject({ status: 'completed' })
  })
})

describe('a file', () => {
  test('that is a page of some proxy once is asked for again', async () => {
    const organization = await house.organization(100n * CENT)
    const { work, means } = scripted()
    let sent = 0
    work.sending = () => {
      sent += 1
      return sent === 1 ? new TextEncoder().encode('<!doctype html>') : testVideo(4)
    }
    const video = await house.create(organization)
    await running(means, async () => {
      expect(await until(video, 'completed', 'failed')).toMatchObject({ status: 'completed' })
    })
    expect(work.asked).toBe(1)
  })

  test('that drips and never ends does not keep its job for ever', async () => {
    const organization = await house.organization(100n * CENT)
    const { work, means } = scripted()
    work.download = async () =>
      (async function* () {
        for (;;) {
          await after(50 * SECOND_MS)
          yield new Uint8Array(1)
        }
      })()
    const video = await house.create(organization)
    await running(means, async () => {
      expect(await until(video, 'failed')).toMatchObject({ error: 'upstream_timeout' })
    })
  }, 30_000)

  test('that its upstream has to make first may take its time', async () => {
    const organization = await house.organization(100n * CENT)
    const { work, client, means } = scripted()
    const slow = {
      ...work,
      filesTakeMs: 600 * SECOND_MS,
      download: async () =>
        (async function* () {
          await after(100 * SECOND_MS)
          yield testVideo(4)
        })(),
    }
    const own = { ...client, video: slow }
    const video = await house.create(organization)
    await running({ ...means, targets: () => [{ upstream: own, model: 'film' }], upstream: () => own }, async () => {
      expect(await until(video, 'completed', 'failed')).toMatchObject({ status: 'completed' })
    })
  })
})

test('who fetches a file when its time is over gets all of it: it is removed a while later', async () => {
  const organization = await house.organization(100n * CENT)
  const { means } = scripted()
  const video = await house.create(organization)
  await running(means, async (wake) => {
    const { artifact } = await until(video, 'completed')
    await house.database.query('update videos set due_at = $2, expires_at = $2 where id = $1::uuid', [
      video.id,
      toTimestamp(clock.now()),
    ])
    await until(video, 'expired')
    const atMs = clock.now()
    expect(await house.files()).toContain(artifact ?? '')
    await eventually(async () => {
      wake()
      return (await house.find(video)).artifact === null
    })
    expect(clock.now() - atMs).toBeGreaterThan(5 * 60 * SECOND_MS)
    expect(await house.files()).not.toContain(artifact ?? '')
  })
})

describe('there is room', () => {
  test('for new jobs, although the files of a hundred old ones can not be removed', async () => {
    const organization = await house.organization(100n * CENT)
    await house.database.query(
      `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, seconds, status,
         completed_at, expires_at, artifact, artifact_bytes, due_at)
       select gen_random_uuid(), $1::uuid, $2::uuid, 'epoch', 'svc/film', 'serverless', '', 1, 4, 'completed', 'epoch', 'epoch',
         'video-' || gen_random_uuid() || '-1.mp4', 1, 'epoch' from generate_series(1, 100)`,
      [organization, KEY],
    )
    const { means } = scripted()
    let removing = 0
    const ended: (() => void)[] = []
    const artifacts = {
      ...house.artifacts,
      remove: () => {
        removing += 1
        return new Promise<void>((resolve) => ended.push(resolve))
      },
    }
    await running({ ...means, artifacts }, async () => {
      await eventually(() => removing >= 8)
      const video = await house.create(organization)
      await until(video, 'completed')
      for (const end of ended) end()
      artifacts.remove = async () => {}
    })
    await house.database.query(`update videos set due_at = null where completed_at = 'epoch'`)
  })

  test('for a job behind one that no upstream takes, where one runs at a time', async () => {
    const organization = await house.organization(100n * CENT)
    const { work, means } = scripted()
    const { submit } = work
    work.submit = async (call, ...how) => {
      // Such as a workflow that does not take so many frames.
      if (call.prompt === 'never') throw new UpstreamFailure('misconfigured', 'status 400')
      return submit(call, ...how)
    }
    const catalog = createCatalog([videoModel({ concurrency: 1 })], [], DEFAULT_DEADLINES)
    const never = await house.create(organization, 1, 'never')
    const made = [await house.create(organization, 1), await house.create(organization, 1)]
    await running({ ...means, catalog: () => catalog }, async () => {
      for (const video of made) await until(video, 'completed')
    })
    await cancel(house.process(means), never.id, organization)
  })

  test('for jobs of one model, although the upstream of another does not answer', async () => {
    const organization = await house.organization(1_000n * CENT)
    const { work, client, means } = scripted()
    const hanging = { ...client, video: { ...work, submit: () => new Promise<string>(() => {}) } }
    const other = { ...videoModel({ concurrency: 100 }), id: 'svc/other' }
    // The others are not given up meanwhile.
    const deadlines = { ...DEFAULT_DEADLINES, firstByteMs: 10 * HOUR_MS }
    const catalog = createCatalog([videoModel({ concurrency: 100 }), other], [], deadlines)
    const own: Partial<VideoDependencies> = {
      ...means,
      catalog: () => catalog,
      targets: ({ model }) => [{ upstream: model.id === 'svc/other' ? client : hanging, model: 'film' }],
    }
    for (let count = 0; count < 100; count += 1) await house.create(organization, 1)
    const served = { model: other, tier: other.serverless }
    const made = await createVideo(
      house.process(own),
      { organizationId: organization, keyId: KEY, traceparent: null },
      served,
      {
        prompt: 'x',
        seconds: 1,
        size: null,
      },
    )
    if (!made.ok) throw new Error('not made')
    await running(own, () => until(made.value, 'completed'))
    await house.database.query(`delete from videos where model = 'svc/film' and status in ('queued', 'submitting')`)
  })
})

test('a process that stops gives up its jobs at once', async () => {
  const organization = await house.organization(100n * CENT)
  const { work, means } = scripted()
  let isFetching = () => {}
  const fetching = new Promise<void>((resolve) => {
    isFetching = resolve
  })
  work.download = async () =>
    (async function* () {
      isFetching()
      await new Promise(() => {})
      yield new Uint8Array(1)
    })()
  const video = await house.create(organization)
  await running(means, () => fetching)
  const [row] = await house.database.query<{ due: Date }>('select due_at as due from videos where id = $1::uuid', [
    video.id,
  ])
  expect(row?.due.getTime()).toBeLessThanOrEqual(clock.now())
  await cancel(house.process(means), video.id, organization)
})
