/** Jobs from end to end over the domain: the scripted provider, a real database, real transactions. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { FastClock } from '../../test/moneyHouse.ts'
import { type Taking, testVideo } from '../../test/scriptedVideos.ts'
import { openVideoHouse, type VideoHouse } from '../../test/videoHouse.ts'
import { readFigures } from '../billing/admission/accounts/figures.ts'
import { prepareSettling, settleVideo } from '../billing/charges/settleVideo.ts'
import { adjustBalance } from '../billing/ledger/adjust.ts'
import { systemRandom } from '../infra/random.ts'
import type { VideoState } from '../providers/dialect/spec.ts'
import type { Video, VideoStatus } from './job/video.ts'
import type { VideoRunner } from './run.ts'
import { runVideos } from './run.ts'
import { cancel } from './transitions.ts'

const CENT = 1_000_000n
const clock = new FastClock(Date.UTC(2031, 4, 17, 13, 30), 100)
let house: VideoHouse
let runner: VideoRunner
beforeAll(async () => {
  house = await openVideoHouse(clock, { deadlineMs: 60_000 })
  runner = runVideos(house.process())
})
afterAll(async () => {
  await runner.stop()
  await house.close()
})

/** Waits until a job is in a state; the runner is what brings it there. */
async function until(video: Video, status: VideoStatus): Promise<Video> {
  for (let looks = 0; looks < 50_000; looks += 1) {
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
    house.provider.sending = () => testVideo(3.4)
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

  test('can not be charged more than was held for it: nothing of its end is stored, and its hold stands (C10)', async () => {
    const organization = await house.organization(100n * CENT)
    // Nobody takes it, so that this test is the only one that ends it.
    house.provider.taking = (): Taking => 'busy'
    const {
      id: chargeId,
      organizationId,
      keyId,
      model,
      tier,
      priceHash,
      createdAtMs,
    } = await house.create(organization, 4)
    const admission = { chargeId, admittedAtMs: createdAtMs, organizationId, keyId, model, tier, priceHash }
    await prepareSettling(house.database, createdAtMs)
    const settle = (costMicrocents: bigint) =>
      house.database.transaction((tx) =>
        settleVideo(tx, { ...admission, seconds: 4, costMicrocents, target: 'scripted/film' }, clock.now(), 0n),
      )
    await expect(settle(30n * CENT + 1n)).rejects.toThrow('costs more than was held')
    expect(await held(organization)).toEqual({ held: 30n * CENT, holds: 1n })
    expect(await house.spent(organization)).toEqual({ microcents: 0n, charges: 0 })
    await settle(30n * CENT)
    expect(await held(organization)).toEqual({ held: 0n, holds: 0n })
    expect(await house.spent(organization)).toEqual({ microcents: 30n * CENT, charges: 1 })
    await cancel(house.process(), chargeId, organization)
    house.provider.taking = () => 'taken'
  })

  test('is charged although the balance was taken away meanwhile', async () => {
    const organization = await house.organization(100n * CENT)
    let isDebited = false
    house.provider.sending = () => testVideo(4)
    house.provider.taking = (): Taking => (isDebited ? 'taken' : 'busy')
    const created = await house.create(organization, 4)
    await adjustBalance(house.database, systemRandom(), {
      organizationId: organization,
      amountMicrocents: -90n * CENT,
      source: `test:${created.id}`,
      note: 'a test',
      atMs: clock.now(),
    })
    isDebited = true
    await until(created, 'completed')
    const figures = await readFigures(house.database, organization, clock.now())
    expect(figures).toMatchObject({
      balanceMicrocents: -20n * CENT,
      heldMicrocents: 0n,
      daySpentMicrocents: 30n * CENT,
      monthSpentMicrocents: 30n * CENT,
    })
    expect(await house.disagreements()).toEqual([])
  })

  test('that nobody takes waits for its turn, and has it as soon as somebody does', async () => {
    const organization = await house.organization(100n * CENT)
    const asked = house.provider.asked
    house.provider.taking = (): Taking => (house.provider.asked < asked + 4 ? 'busy' : 'taken')
    const created = await house.create(organization, 4)
    await until(created, 'completed')
    expect(house.provider.asked).toBe(asked + 4)
  })

  test.each([
    ['rejected', 'upstream_error'],
    ['silent', 'upstream_timeout'],
    ['lost', 'upstream_timeout'],
  ] as const)('whose sending is %s has failed, and is not sent again', async (taking, error) => {
    const organization = await house.organization(100n * CENT)
    const asked = house.provider.asked
    house.provider.taking = () => taking
    const created = await house.create(organization, 4)
    const failed = await until(created, 'failed')
    house.provider.taking = () => 'taken'
    expect(failed).toMatchObject({ error, prompt: null, costMicrocents: null })
    expect(house.provider.asked).toBe(asked + 1)
    expect(await held(organization)).toEqual({ held: 0n, holds: 0n })
    expect(await house.events(created.id)).toEqual(['video.failed'])
  })

  test.each([
    ['no video', (): Uint8Array | null => new Uint8Array(30), 'invalid_output'],
    ['broken off each time', (): Uint8Array | null => null, 'upstream_error'],
  ] as const)('whose file is %s has failed, and leaves none', async (_, sending, error) => {
    const organization = await house.organization(100n * CENT)
    house.provider.sending = sending
    const created = await house.create(organization, 4)
    expect(await until(created, 'failed')).toMatchObject({ error })
    house.provider.sending = () => testVideo(4)
    expect((await house.files()).filter((name) => name.includes(created.id))).toEqual([])
  })

  test('whose provider can not be asked is asked again until its time is over, then told to stop', async () => {
    const organization = await house.organization(100n * CENT)
    let looks = 0
    house.provider.looking = (): VideoState | null => {
      looks += 1
      return null
    }
    const created = await house.create(organization, 4)
    const failed = await until(created, 'failed')
    expect(failed).toMatchObject({ error: 'upstream_timeout' })
    expect(looks).toBeGreaterThan(3)
    const { providerJob } = failed
    for (let turns = 0; turns < 50_000 && house.provider.jobs.get(providerJob ?? '')?.cancelled !== true; turns += 1) {
      runner.wake()
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(house.provider.jobs.get(providerJob ?? '')?.cancelled).toBe(true)
    house.provider.looking = (job) => job.state
  })

  test('shows the progress of its provider, which never goes back, and 100 only when it is there', async () => {
    const organization = await house.organization(100n * CENT)
    const said = [30, 70, 50, 100, null]
    const seen: number[] = []
    house.provider.looking = (): VideoState | null => {
      const progress = said.shift()
      return progress === undefined ? { kind: 'done' } : { kind: 'working', progress }
    }
    const created = await house.create(organization, 4)
    for (let status = ''; status !== 'completed'; ) {
      const video = await house.find(created)
      status = video.status
      if (seen.at(-1) !== video.progress) seen.push(video.progress)
      runner.wake()
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(seen).toEqual([...seen].sort((a, b) => a - b))
    expect(seen.at(-1)).toBe(100)
    house.provider.looking = (job) => job.state
  })
})

test('each organization has its turn, however many jobs another has waiting; no more run than may', async () => {
  const crowd = await house.organization(10_000n * CENT)
  const few = await house.organization(100n * CENT)
  const open = new Set<string>()
  const order: string[] = []
  let most = 0
  house.provider.taking = () => 'taken'
  house.provider.looking = (job) => {
    if (!open.has(job.id)) order.push(job.call.prompt)
    open.add(job.id)
    return { kind: 'done' }
  }
  const made: Video[] = []
  for (let count = 0; count < 20; count += 1) made.push(await house.create(crowd, 1, 'crowd'))
  made.push(await house.create(few, 1, 'few'))
  for (const video of made) {
    const rows = await house.database.query<{ count: bigint }>(
      `select count(*) from videos where status in ('submitting', 'in_progress')`,
    )
    most = Math.max(most, Number(rows[0]?.count))
    await until(video, 'completed')
  }
  expect(most).toBeLessThanOrEqual(4)
  expect(order).toHaveLength(21)
  house.provider.looking = (job) => job.state
})
