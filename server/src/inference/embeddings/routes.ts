import type { CompatSettings } from '../../catalog/settings.ts'
import { apiKey } from '../../http/access.ts'
import { costHeader } from '../../http/cost.ts'
import { planRefusedHeaders } from '../../http/describedHeaders.ts'
import type { Route } from '../../http/route.ts'
import type { ByteBudget } from '../../lib/byteBudget.ts'
import type { EmbeddingsDependencies } from './embed.ts'
import { embeddings, embeddingsRequestSchema, embeddingsResponse } from './http.ts'

interface EmbeddingsRouteDependencies {
  readonly embeddings: EmbeddingsDependencies
  /** Where large answers are held. */
  readonly memoryBudget: ByteBudget
  readonly compat: CompatSettings
}

export function embeddingsRoutes(dependencies: EmbeddingsRouteDependencies): Route[] {
  const { memoryBudget, compat } = dependencies
  return [
    {
      method: 'POST',
      path: '/embeddings',
      access: apiKey('serverless:write'),
      body: 'json',
      isPaid: true,
      takesPlace: true,
      prepare: embeddings(dependencies.embeddings, memoryBudget, compat),
      describe: {
        operationId: 'createEmbeddings',
        summary: 'Turn texts into vectors',
        description: 'Charged by input tokens, rounded up to the next whole cent a request.',
        requestBody: embeddingsRequestSchema(compat),
        responses: {
          200: {
            description: 'The vectors.',
            content: { 'application/json': embeddingsResponse },
            headers: costHeader,
          },
        },
        refusals: [402, 404, 502, 504],
        refusalHeaders: { 429: planRefusedHeaders },
      },
    },
  ]
}
