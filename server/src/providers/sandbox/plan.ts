import type { TokenUsage } from '../../lib/tokenUsage.ts'
import type { ChatCall, ChatEvent, FinishReason } from '../dialect/spec.ts'
import { takeDirective, VIDEO_PARTS, wrong } from './directive.ts'
import { countPromptTokens, lastUserIndex, replyTokens } from './reply.ts'
import type { SandboxFailure, SandboxSettings } from './settings.ts'

/** All that a call will do, decided before its first token. */
export interface SandboxPlan {
  /** One event a token: reasoning first, then text. */
  readonly tokens: readonly ChatEvent[]
  readonly finish: FinishReason
  readonly usage: TokenUsage | null
  readonly firstTokenMs: number
  /** Null for all at once. */
  readonly tokensPerSecond: number | null
  readonly failure: SandboxFailure | null
  /** Nothing comes after this many tokens; null for no silence. */
  readonly silentAfter: number | null
}

/**
 * Returns the plan of a call, from the settings and the directive in the last user message. Throws for a bad
 * directive.
 */
export function planOf(call: ChatCall, settings: SandboxSettings): SandboxPlan {
  const last = lastUserIndex(call.messages)
  const { directive, rest } = takeDirective(call.messages[last]?.content ?? '')
  const other = VIDEO_PARTS.find((name) => Object.hasOwn(directive, name))
  if (other !== undefined) throw wrong(`${other} is for videos`)
  const limit = call.maxTokens ?? Number.MAX_SAFE_INTEGER

  const reasoningWanted = directive.reasoning_tokens ?? 0
  const reasoningCount = Math.min(reasoningWanted, limit)
  const reply = replyTokens(call, rest, directive.tokens ?? settings.replyTokens, limit - reasoningCount)
  const tokens: ChatEvent[] = new Array(reasoningCount).fill({ kind: 'reasoning', text: ' hmm' })
  for (const text of reply.tokens) tokens.push({ kind: 'text', text })

  const promptTokens = directive.prompt_tokens ?? countPromptTokens(call.messages)
  const cachedPromptTokens = directive.cached_tokens ?? 0
  if (cachedPromptTokens > promptTokens) throw wrong(`cached_tokens is more than the prompt's ${promptTokens} tokens`)

  return {
    tokens,
    finish: reply.cut || reasoningCount < reasoningWanted ? 'length' : (directive.finish ?? 'stop'),
    usage: directive.no_usage ? null : { promptTokens, cachedPromptTokens, completionTokens: tokens.length },
    firstTokenMs: directive.first_token_ms ?? settings.firstTokenMs,
    tokensPerSecond: (directive.tokens_per_second ?? settings.tokensPerSecond) || null,
    failure: directive.fail
      ? { kind: directive.fail, afterTokens: directive.fail_after ?? 0 }
      : (settings.failure ?? null),
    silentAfter: directive.silent_after ?? null,
  }
}
