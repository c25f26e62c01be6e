/** The schemas of a chat request. */

import { z } from 'zod'
import type { CompatSettings } from '../../catalog/settings.ts'

export const chatMessage = z
  .strictObject({
    role: z.enum(['system', 'user', 'assistant'], { error: "must be one of 'system', 'user', 'assistant'" }),
    content: z.string().meta({ description: 'Text. May be empty.' }),
  })
  .meta({ id: 'ChatMessage' })

export const chatCompletionRequest = z
  .strictObject({
    model: z.string().min(1).meta({ description: 'A model id or alias, optionally with `:economy`.' }),
    messages: z.array(chatMessage).min(1),
    stream: z.boolean().nullish().meta({ description: 'Default false.' }),
    stream_options: z.strictObject({ include_usage: z.boolean().nullish() }).nullish(),
    max_tokens: z.int().min(1).nullish(),
    temperature: z.number().min(0).max(2).nullish(),
  })
  .meta({ id: 'ChatCompletionRequest' })

/** With the name that newer clients use; only one of the two may be given, or both alike. */
export const lenientChatRequest = chatCompletionRequest
  .extend({
    max_completion_tokens: z.int().min(1).nullish().meta({ description: 'Another name of `max_tokens`.' }),
  })
  .meta({ id: 'LenientChatCompletionRequest' })

export type ChatRequestBody = z.infer<typeof lenientChatRequest>

/** Parameters that every chat model takes. */
const ALWAYS_TAKEN: readonly string[] = ['model', 'messages']

/**
 * Returns the names of the parameters that a request gives, beside those that every model takes. `stream: false` asks for nothing, and
 * official clients always send it: it counts as left out, as null does (E7).
 */
export function givenParameters(body: ChatRequestBody): readonly string[] {
  return Object.entries(body)
    .filter(([name, value]) => value !== null && value !== undefined && value !== false && !ALWAYS_TAKEN.includes(name))
    .map(([name]) => name)
}

/** Returns what a request may say under these settings, once its text parts are joined. */
export function chatRequestSchema(compat: CompatSettings): z.ZodType<ChatRequestBody> {
  return compat.maxCompletionTokens ? lenientChatRequest : chatCompletionRequest
}

/** A message whose text may come in parts. */
const messageOfParts = chatMessage
  .extend({
    content: z
      .union([z.string(), z.array(z.strictObject({ type: z.literal('text'), text: z.string() })).min(1)])
      .meta({ description: 'Text. May be empty. The texts of parts are joined, with nothing between them.' }),
  })
  .meta({ id: 'ChatMessageOfParts' })

/** Returns what a request may say under these settings, for the description. */
export function describedRequest(compat: CompatSettings): z.ZodType {
  if (!compat.textParts) return chatRequestSchema(compat)
  const messages = z.array(messageOfParts).min(1)
  return compat.maxCompletionTokens
    ? lenientChatRequest.extend({ messages }).meta({ id: 'LenientChatCompletionRequest' })
    : chatCompletionRequest.extend({ messages }).meta({ id: 'ChatCompletionRequest' })
}
