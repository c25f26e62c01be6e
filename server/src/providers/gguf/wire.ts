import { z } from 'zod'
import type { TokenUsage } from '../../lib/tokenUsage.ts'
import type { FinishReason } from '../dialect/spec.ts'

/** The fields of OpenAI's chat request that the child reads; it ignores all others, as other servers do. */
export const childChatRequestSchema = z.object({
  model: z.string(),
  messages: z.array(z.object({ role: z.enum(['system', 'user', 'assistant']), content: z.string() })).min(1),
  stream: z.literal(true),
  max_tokens: z.int().min(1).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  stream_options: z.object({ include_usage: z.boolean().nullish() }).nullish(),
})

export type ChildChatRequest = z.infer<typeof childChatRequestSchema>

/** The fields of OpenAI's embeddings request that the child reads. */
export const childEmbeddingsRequestSchema = z.object({
  model: z.string(),
  input: z.array(z.string().min(1)).min(1),
  encoding_format: z.literal('float').nullish(),
  dimensions: z.int().min(1).nullish(),
})

export type ChildEmbeddingsRequest = z.infer<typeof childEmbeddingsRequestSchema>

export interface ChunkHead {
  readonly id: string
  readonly created: number
  readonly model: string
}

type Delta = { readonly role?: 'assistant'; readonly content?: string; readonly reasoning_content?: string }

/**
 * One event of the stream in OpenAI's shape. Where the caller asked for usage, every chunk carries the running total: so
 * an answer that is cut short is still charged by the engine's own count.
 */
export function chunkEvent(
  head: ChunkHead,
  delta: Delta,
  finishReason: FinishReason | null,
  usage: TokenUsage | null,
): string {
  return event({
    ...chunk(head),
    choices: [{ index: 0, delta, finish_reason: finishReason }],
    ...(usage === null ? {} : { usage: usageToWire(usage) }),
  })
}

/** The event that closes a stream with its whole usage. */
export function usageEvent(head: ChunkHead, usage: TokenUsage): string {
  return event({ ...chunk(head), choices: [], usage: usageToWire(usage) })
}

export function childErrorEvent(message: string): string {
  return event(errorBody('internal_error', message, null))
}

export const DONE_EVENT = 'data: [DONE]\n\n'

export function errorBody(code: string, message: string, param: string | null): object {
  const type = code === 'internal_error' || code === 'overloaded' ? 'api_error' : 'invalid_request_error'
  return { error: { message, type, code, param } }
}

const chunk = (head: ChunkHead) => ({ ...head, object: 'chat.completion.chunk' })

const event = (body: object) => `data: ${JSON.stringify(body)}\n\n`

const usageToWire = (usage: TokenUsage) => ({
  prompt_tokens: usage.promptTokens,
  completion_tokens: usage.completionTokens,
  total_tokens: usage.promptTokens + usage.completionTokens,
  prompt_tokens_details: { cached_tokens: usage.cachedPromptTokens },
})
