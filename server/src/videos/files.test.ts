/** Files of jobs that come late, come in pieces, come as something else, or go while they are fetched. */

import { afterAll, describe, expect, test } from 'bun:test'
import { testVideo } from '../../test/scriptedVideos.ts'
import { openTroubledVideos, ownProvider } from '../../test/troubledVideos.ts'
import { SECOND_MS, toTimestamp } from '../lib/time.ts'

const CENT = 1_000_000n

const { house, clock, running, after, eventually, until } = await openTroubledVideos()
afterAll(() => house.close())

describe('a file', () => {
  test('that is a page of some proxy once is asked for again', async () => {
    const organization = await house.organization(100n * CENT)
    const { work, means } = ownProvider()
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
    const { work, means } = ownProvider()
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

  test('that its provider has to make first may take its time', async () => {
    const organization = await house.organization(100n * CENT)
    const { work, client, means } = ownProvider()
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
    await running(
      { ...means, providers: { targetsOf: () => [{ provider: own, model: 'film' }] }, provider: () => own },
      async () => {
        expect(await until(video, 'completed', 'failed')).toMatchObject({ status: 'completed' })
      },
    )
  })
})

test('a client that fetches a file when its time is over gets all of it: it is removed a while later', async () => {
  const organization = await house.organization(100n * CENT)
  const { means } = ownProvider()
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
