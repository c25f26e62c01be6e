/** The video domain over a real database, as many processes of it as a test wants, with a scripted upstream. */

import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CHAT_DEFAULTS, createCatalog, type Model, type Served, tierOf } from '../src/catalog/model.ts'
import { priceToJson } from '../src/catalog/price.ts'
import { DEFAULT_DEADLINES } from '../src/catalog/upstream.ts'
import type { Artifacts } from '../src/io/artifacts.ts'
import { systemRandom } from '../src/io/random.ts'
import type { Clock } from '../src/kernel/time.ts'
import { verifyAll } from '../src/money/ledger/verifyAll.ts'
import { storePriceVersion } from '../src/money/store.ts'
import { Health } from '../src/routing/health.ts'
import type { Upstream } from '../src/upstream/spec.ts'
import { createVideo } from '../src/videos/create.ts'
import type { VideoDependencies } from '../src/videos/dependencies.ts'
import { findVideo } from '../src/videos/store.ts'
import type { Video } from '../src/videos/video.ts'
import { type House, openHouse, openTill, type Till } from './moneyHouse.ts'
import { measureTestVideo, type ScriptedVideos, scriptVideos } from './scriptedVideos.ts'
import { SILENCE } from './silence.ts'
import { openTestArtifacts } from './testArtifacts.ts'

/** 7 cents and a bit a second, so that rounding shows. */
export const VIDEO_PRICE = { kind: 'video_second', perSecondMicrocents: 7_300_000n, perVideoMicrocents: null } as const
const KEY = '00000000-0000-4000-8000-000000000001'

export interface VideoHouse extends House {
  readonly upstream: ScriptedVideos
  readonly artifacts: Artifacts & { failing: boolean }
  readonly served: Served
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

export interface VideoHouseOptions {
  readonly concurrency?: number
  readonly deadlineMs?: number
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
  const catalog = createCatalog([model], [], DEFAULT_DEADLINES)
  const client: Upstream = {
    name: 'scripted',
    chat: () => Promise.reject(new Error('it makes videos only')),
    video: upstream,
  }
  let slots = 0
  const processOf: VideoHouse['process'] = (more = {}) => {
    slots += 1
    return {
      database,
      clock,
      random: systemRandom(),
      log: SILENCE,
      catalog: () => catalog,
      targets: () => [{ upstream: client, model: 'film' }],
      upstream: (name) => (name === 'scripted' ? client : null),
      health: new Health(clock, 5),
      artifacts,
      measureSeconds: measureTestVideo,
      async publish(tx, event) {
        await tx.query('insert into test_events values ($1::uuid, $2, $3::uuid, $4::text::jsonb)', [
          event.id,
          event.type,
          event.organizationId,
          JSON.stringify(event.data),
        ])
      },
      lowBalanceMicrocents: 0n,
      onNoticed: () => {},
      ...more,
      money: openTill(database, slots, clock),
    }
  }
  const front = processOf()
  return {
    ...house,
    upstream,
    artifacts,
    served,
    process: processOf,
    async create(organizationId, seconds = 4, prompt = 'a cat on a mat') {
      const request = { prompt, seconds, size: null }
      const made = await createVideo(front, { organizationId, keyId: KEY }, served, request)
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

function videoModel({ concurrency = 4, deadlineMs = 600_000 }: VideoHouseOptions): Model {
  return {
    ...CHAT_DEFAULTS,
    id: 'svc/film',
    modality: 'video',
    aliases: [],
    ownedBy: 'svc',
    author: null,
    contextTokens: 0,
    maxOutputTokens: 0,
    supportedParameters: [],
    parameters: [{ name: 'seconds', type: 'int', default: 4, min: 1, max: 60 }],
    video: { concurrency, deadlineMs },
    serverless: tierOf('serverless', VIDEO_PRICE, [{ upstream: 'scripted', model: 'film' }]),
    economy: null,
  }
}
