import type { TokenUsage } from '../../lib/tokenUsage.ts'
import { isTokenCount, type JsonObject } from '../dialect/json.ts'

/**
 * A `usageMetadata` as the spec has it; null when it makes no sense. The prompt's tokens include the cached ones; what the
 * model thought comes beside what it answered. Counts that are 0 are left out by the server.
 */
export function usageFromWire(metadata: JsonObject): TokenUsage | null {
  const promptTokens = metadata['promptTokenCount']
  const cachedPromptTokens = metadata['cachedContentTokenCount'] ?? 0
  const answerTokens = metadata['candidatesTokenCount'] ?? 0
  const thoughtTokens = metadata['thoughtsTokenCount'] ?? 0
  if (!isTokenCount(promptTokens) || !isTokenCount(cachedPromptTokens)) return null
  if (!isTokenCount(answerTokens) || !isTokenCount(thoughtTokens)) return null
  if (cachedPromptTokens > promptTokens) return null
  return { promptTokens, cachedPromptTokens, completionTokens: answerTokens + thoughtTokens }
}
