/** Jobs while the database or their provider is away, and when their process stops. */

import { afterAll, describe, expect, test } from 'bun:test'
import { withFaults } from '../../test/moneyHouse.ts'
import { measureTestVideo } from '../../test/scriptedVideos.ts'
import { openTroubledVideos, ownProvider } from '../../test/troubledVideos.ts'
import type { Database } from '../infra/postgres/database.ts'
import { SECOND_MS } from '../lib/time.ts'
import { ProviderFailure, type VideoCall } from '../providers/dialect/spec.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import { cancel } from './transitions.ts'

const CENT = 1_000_000n

const { house, clock, running, after, eventually, until } = await openTroubledVideos()
afterAll(() => house.close())

describe('the database is away for longer than a lease', () => {
  const AWAY_MS = 45 * SECOND_MS

  test.each([
    ['when the provider has taken a job', 'taken'],
    ['when the provider would not take it', 'busy'],
  ] as const)('%s: the job goes on, and is sent once', async (_, first) => {
    const organization = await house.organization(100n * CENT)
    const { work, means } = ownProvider()
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

  test('while the provider still thinks about it', async () => {
    const organization = await house.organization(100n * CENT)
    const { work, means } = ownProvider()
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
    const { work, means } = ownProvider()
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
    const { work, means } = ownProvider()
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

test('a job that is cancelled while its provider thinks about it is ended there, however long that takes', async () => {
  const organization = await house.organization(100n * CENT)
  const { work, means } = ownProvider()
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

test('jobs do not fail one after the other while it is not known whether their provider takes any', async () => {
  const organization = await house.organization(10_000n * CENT)
  const { work, means } = ownProvider()
  // As nginx says 502 while the server behind it is started again.
  work.submit = async () => {
    work.asked += 1
    throw new ProviderFailure('unavailable', 'status 502')
  }
  for (let count = 0; count < 200; count += 1) await house.create(organization, 1)
  await running(means, () => after(100 * SECOND_MS))
  expect(work.asked).toBeGreaterThan(0)
  expect(work.asked).toBeLessThan(80)
  await house.database.query(`delete from videos where status = 'queued'`)
  await house.database.query('update video_queues set failures = 0, due_at = $1', ['epoch'])
})

test('a provider that does not know a job for ten seconds, as behind a proxy that has just begun, is asked again', async () => {
  const organization = await house.organization(100n * CENT)
  const { work, means } = ownProvider()
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

test('a file that is measured without an end is given up, and fetched again', async () => {
  const organization = await house.organization(100n * CENT)
  const { means } = ownProvider()
  let asked = 0
  let ended = 0
  const measureSeconds: VideoDependencies['measureSeconds'] = (artifacts, name, bytes, signal) => {
    asked += 1
    if (asked > 1) return measureTestVideo(artifacts, name, bytes)
    return new Promise((_, reject) => {
      signal.addEventListener('abort', () => {
        ended += 1
        reject(signal.reason)
      })
    })
  }
  const video = await house.create(organization)
  await running({ ...means, measureSeconds }, async () => {
    expect(await until(video, 'completed', 'failed')).toMatchObject({ status: 'completed' })
  })
  expect([asked, ended]).toEqual([2, 1])
})

test('a process that stops while it measures a file gives up its job at once', async () => {
  const organization = await house.organization(100n * CENT)
  const { means } = ownProvider()
  let isMeasuring = () => {}
  const measuring = new Promise<void>((resolve) => {
    isMeasuring = resolve
  })
  const measureSeconds = () => {
    isMeasuring()
    return new Promise<number>(() => {})
  }
  const video = await house.create(organization)
  await running({ ...means, measureSeconds }, () => measuring)
  await running(means, async () => {
    expect(await until(video, 'completed', 'failed')).toMatchObject({ status: 'completed' })
  })
})

test('a process that stops gives up its jobs at once', async () => {
  const organization = await house.organization(100n * CENT)
  const { work, means } = ownProvider()
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
