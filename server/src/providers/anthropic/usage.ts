import type { TokenUsage } from '../../lib/tokenUsage.ts'
import { isTokenCount, type JsonObject } from '../dialect/json.ts'

/**
 * The `usage` of a message as the spec has it; null when it makes no sense. `input_tokens` are those that had nothing to do
 * with the cache: what was read from it and what was written to it come on top.
 */
export function usageFromWire(usage: JsonObject): TokenUsage | null {
  const newTokens = usage['input_tokens']
  const writtenTokens = usage['cache_creation_input_tokens'] ?? 0
  const readTokens = usage['cache_read_input_tokens'] ?? 0
  const completionTokens = usage['output_tokens']
  if (!isTokenCount(newTokens) || !isTokenCount(writtenTokens)) return null
  if (!isTokenCount(readTokens) || !isTokenCount(completionTokens)) return null
  return { promptTokens: newTokens + writtenTokens + readTokens, cachedPromptTokens: readTokens, completionTokens }
}
