/** The video domain over a real database, as many processes of it as a test wants, with a scripted upstream. */

import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Served } from '../src/catalog/model.ts'
import { priceToJson } from '../src/catalog/price.ts'
import type { Artifacts } from '../src/io/artifacts.ts'
import type { Clock } from '../src/kernel/time.ts'
import { verifyAll } from '../src/money/ledger/verifyAll.ts'
import { storePriceVersion } from '../src/money/store.ts'
import { createVideo } from '../src/videos/create.ts'
import type { VideoDependencies } from '../src/videos/dependencies.ts'
import { findVideo } from '../src/videos/store.ts'
import type { Video } from '../src/videos/video.ts'
import { type House, openHouse, type Till } from './moneyHouse.ts'
import { type ScriptedVideos, scriptVideos } from './scriptedVideos.ts'
import { openTestArtifacts } from './testArtifacts.ts'
import { VIDEO_PRICE, type VideoModelOptions, videoModel, videoProcess } from './videoProcess.ts'

const KEY = '00000000-0000-4000-8000-000000000001'

export interface VideoHouse extends House {
  readonly upstream: ScriptedVideos
  readonly artifacts: Artifacts & { failing: boolean }
  readonly served: Served
  /** Where its files are. */
  readonly folder: string
  /** What one process works with. */
  process(more?: Partial<VideoDependencies>): VideoDependencies & { readonly money: Till }
  /** A job that must be accepted. */
  create(organizationId: string, seconds?: number, prompt?: string): Promise<Video>
  find(video: Pick<Video, 'id' | 'organizationId'>): Promise<Video>
  files(): Promise<string[]>
  events(id: string): Promise<string[]>
  /** All that the verification of the books finds, and what does not balance. */
  disagreements(): Promise<unknown[]>
  close(): Promise<void>
}

export interface VideoHouseOptions extends VideoModelOptions {
  readonly finds?: boolean
}

export async function openVideoHouse(clock: Clock, options: VideoHouseOptions = {}): Promise<VideoHouse> {
  const house = await openHouse(clock)
  const { database } = house
  await database.query(`create table test_events (id uuid primary key, type text, organization_id uuid, data jsonb)`)
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-videos-'))
  const artifacts = openTestArtifacts(folder)
  const upstream = scriptVideos(options)
  const model = videoModel(options)
  const served = { model, tier: model.serverless }
  await storePriceVersion(database, served.tier.priceHash, priceToJson(VIDEO_PRICE), clock.now())
  let slots = 0
  const processOf: VideoHouse['process'] = (more = {}) => {
    slots += 1
    return videoProcess({ database, clock, artifacts, work: upstream, model, slot: slots }, more)
  }
  const front = processOf()
  return {
    ...house,
    upstream,
    artifacts,
    served,
    folder,
    process: processOf,
    async create(organizationId, seconds = 4, prompt = 'a cat on a mat') {
      const request = { prompt, seconds, size: null }
      const made = await createVideo(front, { organizationId, keyId: KEY, traceparent: null }, served, request)
      if (!made.ok) throw new Error(made.refusal.message)
      return made.value
    },
    async find({ id, organizationId }) {
      const found = await findVideo(database, organizationId, id)
      if (found === null) throw new Error(`there is no video ${id}`)
      return found
    },
    files: () => readdir(folder).catch(() => []),
    async events(id) {
      const rows = await database.query<{ type: string }>(
        `select type from test_events where data -> 'video' ->> 'id' = $1`,
        [id],
      )
      return rows.map(({ type }) => type)
    },
    async disagreements() {
      const found: unknown[] = [...(await house.imbalances())]
      for await (const each of verifyAll({ database, pause: async () => {} })) found.push(each)
      return found
    },
    async close() {
      await house.drop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
