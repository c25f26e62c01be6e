import type { ChatReply, EndPart, ShownUsage, WholeReply } from './reply.ts'

type StreamedReply = Extract<ChatReply, { kind: 'streamed' }>

function usageToWire(usage: ShownUsage) {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.promptTokens + usage.completionTokens,
    ...(usage.cachedTokens === null ? {} : { prompt_tokens_details: { cached_tokens: usage.cachedTokens } }),
  }
}

/** A whole answer as ChatCompletionResponse. */
export function completionToWire(reply: WholeReply): string {
  return JSON.stringify({
    id: reply.id,
    object: 'chat.completion',
    created: reply.createdSeconds,
    model: reply.model,
    choices: [{ index: 0, message: { role: 'assistant', content: reply.text }, finish_reason: reply.finishReason }],
    usage: usageToWire(reply.usage),
  })
}

/**
 * Turns the parts of a streamed answer into `data:` events (C1): the role first, `choices` never empty, the last chunk
 * with the finish reason and, where asked for, the usage. What all chunks of an answer share is written once.
 */
export function chunkWriter(reply: StreamedReply, includeUsage: boolean) {
  const shared =
    `data: {"id":${JSON.stringify(reply.id)},"object":"chat.completion.chunk","created":${reply.createdSeconds},` +
    `"model":${JSON.stringify(reply.model)},"choices":[{"index":0,"delta":`
  return {
    first: () => `${shared}{"role":"assistant","content":""},"finish_reason":null}]}\n\n`,
    text: (text: string) => `${shared}{"content":${JSON.stringify(text)}},"finish_reason":null}]}\n\n`,
    end: ({ finishReason, usage }: EndPart) => {
      const totals = includeUsage ? `,"usage":${JSON.stringify(usageToWire(usage))}` : ''
      return `${shared}{},"finish_reason":"${finishReason}"}]${totals}}\n\n`
    },
  }
}

export const DONE = 'data: [DONE]\n\n'
