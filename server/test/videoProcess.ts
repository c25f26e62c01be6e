/** The dependencies of one process of the video domain, on a base that a test chooses. */

import { CHAT_DEFAULTS, createCatalog, type Model, tierOf } from '../src/catalog/model.ts'
import { DEFAULT_DEADLINES } from '../src/catalog/provider.ts'
import type { Artifacts } from '../src/infra/artifacts.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { systemRandom } from '../src/infra/random.ts'
import type { Clock } from '../src/lib/time.ts'
import type { Provider, VideoWork } from '../src/providers/dialect/spec.ts'
import { Health } from '../src/routing/health.ts'
import type { VideoDependencies } from '../src/videos/job/dependencies.ts'
import { openTill, type Till } from './moneyHouse.ts'
import { measureTestVideo } from './scriptedVideos.ts'
import { SILENCE } from './silence.ts'

/** 7 cents and a bit a second, so that rounding shows. */
const VIDEO_PRICE = { kind: 'video_second', perSecondMicrocents: 7_300_000n, perVideoMicrocents: null } as const

export interface VideoModelOptions {
  readonly concurrency?: number
  readonly deadlineMs?: number
}

export function videoModel({ concurrency = 4, deadlineMs = 600_000 }: VideoModelOptions): Model {
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
    serverless: tierOf('serverless', VIDEO_PRICE, [{ provider: 'scripted', model: 'film' }]),
    economy: null,
  }
}

export interface VideoGround {
  readonly database: Database
  readonly clock: Clock
  readonly artifacts: Artifacts
  readonly work: VideoWork
  readonly model: Model
  readonly slot: number
}

/** Events go into the table `test_events`. */
export function videoProcess(
  { database, clock, artifacts, work, model, slot }: VideoGround,
  more: Partial<VideoDependencies> = {},
): VideoDependencies & { readonly money: Till } {
  const catalog = createCatalog([model], [], DEFAULT_DEADLINES)
  const client: Provider = {
    name: 'scripted',
    chat: () => Promise.reject(new Error('it makes videos only')),
    video: work,
  }
  return {
    database,
    clock,
    random: systemRandom(),
    log: SILENCE,
    catalog: () => catalog,
    providers: { targetsOf: () => [{ provider: client, model: 'film' }] },
    provider: (name) => (name === 'scripted' ? client : null),
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
    cancellationsPerHour: 10_000,
    failuresPerHour: 10_000,
    queuedMost: 10_000,
    lowBalanceMicrocents: 0n,
    onNoticed: () => {},
    ...more,
    money: openTill(database, slot, clock),
  }
}
