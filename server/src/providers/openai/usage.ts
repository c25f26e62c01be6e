import type { TokenUsage } from '../../lib/tokenUsage.ts'
import { asObject, isTokenCount } from '../dialect/json.ts'

/**
 * Returns the `usage` of a chunk or a completion; null when it is absent or makes no sense (negative, fractional, absurd, or
 * more cached tokens than prompt tokens), so that the caller counts for itself rather than charge a lie. Some servers count hidden
 * reasoning in `total_tokens` alone: the completion is then the rest of the total. A total that makes no sense changes nothing.
 */
export function usageFromWire(value: unknown): TokenUsage | null {
  const usage = asObject(value)
  if (usage === null) return null
  const promptTokens = usage['prompt_tokens']
  // llama.cpp and others leave the count out where nothing was generated.
  const completionTokens = usage['completion_tokens'] ?? 0
  const cachedPromptTokens = asObject(usage['prompt_tokens_details'])?.['cached_tokens'] ?? 0
  if (!isTokenCount(promptTokens) || !isTokenCount(completionTokens) || !isTokenCount(cachedPromptTokens)) return null
  if (cachedPromptTokens > promptTokens) return null
  const totalTokens = usage['total_tokens']
  const besidePrompt = isTokenCount(totalTokens) ? totalTokens - promptTokens : 0
  return { promptTokens, cachedPromptTokens, completionTokens: Math.max(completionTokens, besidePrompt) }
}
