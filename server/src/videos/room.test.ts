/** The work of one model, provider or file takes no room from the others. */

import { afterAll, describe, expect, test } from 'bun:test'
import { FastClock } from '../../test/moneyHouse.ts'
import { openTroubledVideos, ownProvider } from '../../test/troubledVideos.ts'
import { videoModel } from '../../test/videoProcess.ts'
import { createCatalog } from '../catalog/model.ts'
import { DEFAULT_DEADLINES } from '../catalog/provider.ts'
import { HOUR_MS, SECOND_MS, toTimestamp } from '../lib/time.ts'
import { ProviderFailure, type VideoState } from '../providers/dialect/spec.ts'
import { createVideo, newVideo } from './create.ts'
import type { VideoDependencies } from './job/dependencies.ts'
import { cancel } from './transitions.ts'

const CENT = 1_000_000n
const KEY = '00000000-0000-4000-8000-000000000001'

const { house, clock, running, after, eventually, until } = await openTroubledVideos()
afterAll(() => house.close())

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
    const { means } = ownProvider()
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

  test('for jobs of one provider, although another does not say how its hundred are', async () => {
    // Slow beside the others: nobody is given up while this is looked at.
    const slow = new FastClock(clock.now(), 10)
    const organization = await house.organization(100n * CENT)
    const { work, client, means } = ownProvider()
    const hanging = { ...client, video: { ...work, look: () => new Promise<VideoState>(() => {}) } }
    const insert = (provider: string, job: string, count: number) =>
      house.database.query(
        `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, seconds, status,
           submission, target_provider, target_model, provider_job, started_at, due_at)
         select gen_random_uuid(), $1::uuid, $2::uuid, $3::timestamptz, 'svc/film', 'serverless', $4, 1, 4, 'in_progress',
           gen_random_uuid(), $5, 'film', $6, $3::timestamptz, $3::timestamptz from generate_series(1, $7::integer) returning id`,
        [organization, KEY, toTimestamp(slow.now()), house.resolved.tier.priceHash, provider, job, count],
      )
    await insert('hanging', 'x', 100)
    await after(SECOND_MS)
    const job = await work.submit(
      { model: 'film', prompt: 'x', seconds: 4, size: null, attemptId: 'x' },
      new AbortController().signal,
      0,
    )
    const [row] = (await insert('scripted', job, 1)) as { id: string }[]
    const own = { ...means, clock: slow, provider: (name: string) => (name === 'hanging' ? hanging : client) }
    const begunMs = slow.now()
    await running(own, async () => {
      await until({ id: row?.id ?? '', organizationId: organization }, 'completed')
      expect(slow.now() - begunMs).toBeLessThan(25 * SECOND_MS)
      await house.database.query(`delete from videos where target_provider = 'hanging'`)
    })
  })

  test('for a job behind one that no provider takes, where one runs at a time', async () => {
    const organization = await house.organization(100n * CENT)
    const { work, means } = ownProvider()
    const { submit } = work
    work.submit = async (call, ...how) => {
      // Such as a workflow that does not take so many frames.
      if (call.prompt === 'never') throw new ProviderFailure('misconfigured', 'status 400')
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

  test('for jobs of one model, although the provider of another does not answer', async () => {
    const organization = await house.organization(1_000n * CENT)
    const { work, client, means } = ownProvider()
    const hanging = { ...client, video: { ...work, submit: () => new Promise<string>(() => {}) } }
    const other = { ...videoModel({ concurrency: 100 }), id: 'svc/other' }
    // The others are not given up meanwhile.
    const deadlines = { ...DEFAULT_DEADLINES, firstByteMs: 10 * HOUR_MS }
    const catalog = createCatalog([videoModel({ concurrency: 100 }), other], [], deadlines)
    const own: Partial<VideoDependencies> = {
      ...means,
      catalog: () => catalog,
      providers: {
        targetsOf: (tier) => [{ provider: tier === other.serverless ? client : hanging, model: 'film' }],
      },
    }
    for (let count = 0; count < 100; count += 1) await house.create(organization, 1)
    const resolved = { model: other, tier: other.serverless }
    const process = house.process(own)
    const caller = { organizationId: organization, keyId: KEY, traceparent: null }
    const job = newVideo(process, caller, resolved, { prompt: 'x', seconds: 1, size: null })
    const made = await createVideo(process, caller, job)
    if (!made.ok) throw new Error('not made')
    await running(own, () => until(made.value, 'completed'))
    await house.database.query(`delete from videos where model = 'svc/film' and status in ('queued', 'submitting')`)
  })
})
