import { apiKey } from '../../http/access.ts'
import { costHeader } from '../../http/cost.ts'
import { planRefusedHeaders } from '../../http/describedHeaders.ts'
import type { Route } from '../../http/route.ts'
import type { ByteBudget } from '../../lib/byteBudget.ts'
import type { InferenceDependencies } from '../call/dependencies.ts'
import { imagesGenerations, imagesGenerationsRequest, imagesResponse } from './http.ts'

interface ImagesRouteDependencies {
  readonly images: InferenceDependencies
  /** Where large answers are held. */
  readonly memoryBudget: ByteBudget
}

export function imagesRoutes({ images, memoryBudget }: ImagesRouteDependencies): Route[] {
  return [
    {
      method: 'POST',
      path: '/images/generations',
      access: apiKey('serverless:write'),
      body: 'json',
      isPaid: true,
      takesPlace: true,
      prepare: imagesGenerations(images, memoryBudget),
      describe: {
        operationId: 'createImages',
        summary: 'Make images',
        description: 'Charged by image or by megapixel. Only delivered images are charged.',
        requestBody: imagesGenerationsRequest,
        responses: {
          200: { description: 'The images.', content: { 'application/json': imagesResponse }, headers: costHeader },
        },
        refusals: [402, 404, 502, 504],
        refusalHeaders: { 429: planRefusedHeaders },
      },
    },
  ]
}
