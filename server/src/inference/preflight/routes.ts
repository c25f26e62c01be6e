import { apiKey } from '../../http/access.ts'
import type { Route } from '../../http/route.ts'
import type { PreflightDependencies } from './ask.ts'
import { inferencePreflight, preflightQuery, showPreflight } from './http.ts'

export function preflightRoutes(dependencies: PreflightDependencies): Route[] {
  return [
    {
      method: 'GET',
      path: '/inference/preflight',
      access: apiKey('serverless:read'),
      query: ['model'],
      waitsForNoTurn: true,
      handle: showPreflight(dependencies),
      describe: {
        operationId: 'getInferencePreflight',
        summary: 'Check whether a call of a model would be accepted now',
        description: "Nothing is sent, counted, charged or held. A gate that can't be read never blocks.",
        requestParams: { query: preflightQuery },
        responses: { 200: { description: 'The verdict.', content: { 'application/json': inferencePreflight } } },
        refusals: [404],
      },
    },
  ]
}
