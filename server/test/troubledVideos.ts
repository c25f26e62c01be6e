/** The video domain for tests of trouble: one process at a time, its own provider for each test, and a clock to wait by. */

import { HOUR_MS, MINUTE_MS } from '../src/lib/time.ts'
import type { VideoDependencies } from '../src/videos/job/dependencies.ts'
import type { Video, VideoStatus } from '../src/videos/job/video.ts'
import { runVideos } from '../src/videos/run.ts'
import { FastClock } from './moneyHouse.ts'
import { scriptVideos } from './scriptedVideos.ts'
import { openVideoHouse, type VideoHouse } from './videoHouse.ts'

interface TroubledVideos {
  readonly house: VideoHouse
  readonly clock: FastClock
  /** Runs one process for as long as the test of it. */
  running<T>(more: Partial<VideoDependencies>, during: (wake: () => void) => Promise<T>): Promise<T>
  after(milliseconds: number): Promise<void>
  /** Looks again and again until it is so, for an hour of the clock at most. */
  eventually(isSo: () => boolean | Promise<boolean>): Promise<void>
  until(video: Pick<Video, 'id' | 'organizationId'>, ...statuses: VideoStatus[]): Promise<Video>
}

export async function openTroubledVideos(): Promise<TroubledVideos> {
  const clock = new FastClock(Date.UTC(2031, 4, 17, 13, 30), 200)
  const house = await openVideoHouse(clock, { deadlineMs: 10 * MINUTE_MS, concurrency: 100 })
  const after = (milliseconds: number) => new Promise<void>((resolve) => clock.after(milliseconds, resolve))
  const eventually: TroubledVideos['eventually'] = async (isSo) => {
    const endMs = clock.now() + HOUR_MS
    while (!(await isSo())) {
      if (clock.now() > endMs) throw new Error('it never came to that')
      await after(200)
    }
  }
  return {
    house,
    clock,
    after,
    eventually,
    async running(more, during) {
      const runner = runVideos(house.process(more))
      try {
        return await during(runner.wake)
      } finally {
        await runner.stop()
      }
    },
    async until(video, ...statuses) {
      await eventually(async () => statuses.includes((await house.find(video)).status))
      return house.find(video)
    },
  }
}

/** A provider of a test's own, under the name that jobs of the house are sent to. */
export function ownProvider() {
  const work = scriptVideos()
  const client = { name: 'scripted', chat: () => Promise.reject(new Error('videos only')), video: work }
  const means = { providers: { targetsOf: () => [{ provider: client, model: 'film' }] }, provider: () => client }
  return { work, client, means }
}
