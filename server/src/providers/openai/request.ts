import type { MaxTokensField } from '../../catalog/provider.ts'
import type { ChatCall } from '../dialect/spec.ts'

const USAGE_AT_END = { include_usage: true }
const CONTINUOUS_USAGE = { include_usage: true, continuous_usage_stats: true }

/**
 * The body of `POST …/chat/completions`. Always streamed, so that a call can be cut, and always with usage asked for:
 * what a server does not know of (`stream_options`) it ignores. `continuousUsage`: vLLM and SGLang then report the usage so far in
 * every chunk; other servers may refuse to be asked so. OpenAI's newer models take the limit of an answer in another field.
 */
export function toWire(call: ChatCall, continuousUsage = false, maxTokensField: MaxTokensField = 'max_tokens'): string {
  return JSON.stringify({
    model: call.model,
    messages: call.messages,
    stream: true,
    stream_options: continuousUsage ? CONTINUOUS_USAGE : USAGE_AT_END,
    // JSON leaves out what is undefined: null means that the model's own default applies.
    [maxTokensField]: call.maxTokens ?? undefined,
    temperature: call.temperature ?? undefined,
  })
}
