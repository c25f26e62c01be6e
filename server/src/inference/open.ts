import type { CompatSettings } from '../catalog/settings.ts'
import type { Metrics } from '../infra/metrics.ts'
import type { Queryable } from '../infra/postgres/database.ts'
import type { ByteBudget } from '../lib/byteBudget.ts'
import { type RandomBytes, randomFraction } from '../lib/ids.ts'
import type { VectorWork } from '../providers/vectors/work.ts'
import type { InferenceDependencies } from './call/dependencies.ts'
import { chatRoutes } from './chat/routes.ts'
import { createTokenCounter } from './chat/tokenCounter.ts'
import { embeddingsRoutes } from './embeddings/routes.ts'
import { imagesRoutes } from './images/routes.ts'
import { preflightRoutes } from './preflight/routes.ts'

export interface InferenceOptions extends Omit<InferenceDependencies, 'random' | 'metrics'> {
  readonly random: RandomBytes
  readonly metrics: Metrics
  readonly vectors: VectorWork
  /** For reads whose clients wait. */
  readonly reads: Queryable
  /** Of all large answers. */
  readonly memoryBudget: ByteBudget
  readonly settings: {
    readonly compat: CompatSettings
    /** Messages of one chat request. */
    readonly messagesMost: number
  }
}

/** Opens the room of inference: its routes, and the thread that counts tokens. */
export function openInference({
  vectors,
  random,
  memoryBudget,
  settings: { compat, messagesMost },
  reads,
  ...shared
}: InferenceOptions) {
  const tokenCounter = createTokenCounter(shared.log)
  const paid = { ...shared, random: () => randomFraction(random) }
  const embeddings = { ...paid, vectors, countTokens: tokenCounter.count }
  return {
    routes: [
      ...chatRoutes({ chat: { ...paid, tokenCounter }, compat, messagesMost }),
      ...embeddingsRoutes({ embeddings, memoryBudget, compat }),
      ...imagesRoutes({ images: paid, memoryBudget }),
      ...preflightRoutes({ ...shared, database: reads }),
    ],
    metrics: [
      {
        name: 'tollgate_waiting_token_counts',
        help: 'Answers whose tokens are still to be counted.',
        read: () => tokenCounter.waiting,
      },
      {
        name: 'tollgate_large_answer_bytes',
        help: 'Memory taken by answers over a MiB and by replays, of 256 MiB.',
        read: () => memoryBudget.takenBytes,
      },
      {
        name: 'tollgate_waiting_large_answers',
        help: 'Large answers that wait for memory.',
        read: () => memoryBudget.waiting,
      },
    ],
    close: () => tokenCounter.close(),
  }
}
