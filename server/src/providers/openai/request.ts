import type { ChatCall } from '../dialect/spec.ts'

/**
 * The body of `POST …/chat/completions`. Always streamed, so that a call can be cut, and always with usage asked for:
 * what a server does not know of (`stream_options`) it ignores.
 */
export function toWire(call: ChatCall): string {
  return JSON.stringify({
    model: call.model,
    messages: call.messages,
    stream: true,
    stream_options: { include_usage: true },
    // JSON leaves out what is undefined: null means that the model's own default applies.
    max_tokens: call.maxTokens ?? undefined,
    temperature: call.temperature ?? undefined,
  })
}
