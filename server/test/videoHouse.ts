/** The video domain over a real database, as many processes of it as a test wants, with a scripted provider. */

import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { storePriceVersions } from '../src/billing/charges/prices/store.ts'
import { verifyAll } from '../src/billing/ledger/verifyAll.ts'
import { planCheck } from '../src/billing/plans/verify.ts'
import type { ResolvedModel } from '../src/catalog/model.ts'
import type { Artifacts } from '../src/infra/artifacts.ts'
import type { Clock } from '../src/lib/time.ts'
import { createVideo, newVideo } from '../src/videos/create.ts'
import type { VideoDependencies } from '../src/videos/job/dependencies.ts'
import type { Video } from '../src/videos/job/video.ts'
import { findVideo } from '../src/videos/store.ts'
import { type House, openHouse, type Till } from './moneyHouse.ts'
import { type ScriptedVideos, scriptVideos } from './scriptedVideos.ts'
import { openTestArtifacts } from './testArtifacts.ts'
import { type VideoModelOptions, videoModel, videoProcess } from './videoProcess.ts'

const KEY = '00000000-0000-4000-8000-000000000001'

export interface VideoHouse extends House {
  readonly provider: ScriptedVideos
  readonly artifacts: Artifacts & { failing: boolean }
  readonly resolved: ResolvedModel
  /** Where its files are. */
  readonly folder: string
  /** Returns the dependencies of one process. */
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
  const provider = scriptVideos(options)
  const model = videoModel(options)
  const resolved = { model, tier: model.serverless }
  await storePriceVersions(database, [resolved.tier], clock.now())
  let slots = 0
  const processOf: VideoHouse['process'] = (more = {}) => {
    slots += 1
    return videoProcess({ database, clock, artifacts, work: provider, model, slot: slots }, more)
  }
  const front = processOf()
  return {
    ...house,
    provider,
    artifacts,
    resolved,
    folder,
    process: processOf,
    async create(organizationId, seconds = 4, prompt = 'a cat on a mat') {
      const request = { prompt, seconds, size: null }
      const caller = { organizationId, keyId: KEY, traceparent: null }
      const made = await createVideo(front, caller, newVideo(front, caller, resolved, request))
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
      for await (const each of verifyAll({ database, pause: async () => {}, checks: [planCheck] })) found.push(each)
      return found
    },
    async close() {
      await house.drop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
