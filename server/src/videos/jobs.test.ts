/** Jobs from end to end over the domain: the scripted upstream, a real database, real transactions. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { FastClock } from '../../test/moneyHouse.ts'
import { testVideo } from '../../test/scriptedVideos.ts'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import type { VideoRunner } from './run.ts'
import { runVideos } from './run.ts'
import type { Video, VideoStatus } from './video.ts'

const CENT = 1_000_000n
const clock = new FastClock(Date.UTC(2031, 4, 17, 13, 30), 20)
let house: VideoHouse
let runner: VideoRunner
beforeAll(async () => {
  house = await openVideoHouse(clock)
  runner = runVideos(house.process())
})
afterAll(async () => {
  await runner.stop()
  await house.close()
})

/** Waits until a job is in a state; the runner is what brings it there. */
async function until(video: Video, status: VideoStatus): Promise<Video> {
  for (let looks = 0; looks < 500; looks += 1) {
    const found = await house.find(video)
    if (found.status === status) return found
    await new Promise((resolve) => setImmediate(resolve))
    runner.wake()
  }
  throw new Error(`it is ${(await house.find(video)).status}, not ${status}`)
}

const held = async (organizationId: string) => {
  const rows = await house.database.query<{ held: bigint; holds: bigint }>(
    `select held_microcents as held, (select count(*) from holds h where h.organization_id = a.organization_id) as holds
     from accounts a where organization_id = $1::uuid`,
    [organizationId],
  )
  return rows[0]
}

describe('a job', () => {
  test('is made, measured, charged in whole cents and told, all once', async () => {
    const organization = await house.organization(100n * CENT)
    house.upstream.sending = () => testVideo(3.4)
    const created = await house.create(organization, 4)
    expect(created).toMatchObject({ status: 'queued', seconds: 4, progress: 0, prompt: 'a cat on a mat' })
    expect(await held(organization)).toEqual({ held: 30n * CENT, holds: 1n })
    const done = await until(created, 'completed')
    expect(done).toMatchObject({ seconds: 3, costMicrocents: 22n * CENT, progress: 100, prompt: null, error: null })
    expect(await held(organization)).toEqual({ held: 0n, holds: 0n })
    expect(await house.spent(organization)).toEqual({ microcents: 22n * CENT, charges: 1 })
    expect(await house.events(created.id)).toEqual(['video.completed'])
    expect(await house.files()).toContain(done.artifact ?? '')
    expect(await house.disagreements()).toEqual([])
  })
})
