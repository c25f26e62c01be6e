import { z } from 'zod'
import type { CompatSettings } from '../../catalog/settings.ts'
import { apiKey } from '../../http/access.ts'
import { costHeader } from '../../http/cost.ts'
import { errorSchema } from '../../http/describe.ts'
import { planRefusedHeaders, streamHeaders } from '../../http/describedHeaders.ts'
import type { Route } from '../../http/route.ts'
import type { ChatDependencies } from './dependencies.ts'
import { chatCompletionChunk, chatCompletionResponse, chatCompletions } from './http.ts'
import { describedRequest } from './requestSchema.ts'

interface ChatRouteDependencies {
  readonly chat: ChatDependencies
  readonly compat: CompatSettings
  readonly messagesMost: number
}

export function chatRoutes({ chat, compat, messagesMost }: ChatRouteDependencies): Route[] {
  return [
    {
      method: 'POST',
      path: '/chat/completions',
      access: apiKey('serverless:write'),
      body: 'json',
      isPaid: true,
      takesPlace: true,
      prepare: chatCompletions(chat, compat, messagesMost),
      describe: {
        operationId: 'createChatCompletion',
        summary: 'Complete a chat',
        description:
          'With `stream: true` the answer is a stream of server-sent events, ended by `data: [DONE]`. An unknown model on a ' +
          'stream, and a failure after its start, arrive as one `{"error": …}` event before it.',
        requestBody: describedRequest(compat),
        responses: {
          200: {
            description: 'The answer, whole or streamed.',
            content: {
              'application/json': chatCompletionResponse,
              'text/event-stream': z.union([chatCompletionChunk, errorSchema]),
            },
            headers: { ...costHeader, ...streamHeaders },
          },
        },
        refusals: [402, 404, 502, 504],
        refusalHeaders: { 429: planRefusedHeaders },
      },
    },
  ]
}
