import { faulty } from '../dialect/failure.ts'
import { asObject, asText, firstOfIndex0, type JsonObject, parseObject } from '../dialect/json.ts'
import { type ChatEvent, type FinishReason, ProviderFailure } from '../dialect/spec.ts'
import type { Progress } from '../dialect/streamed.ts'
import { failureOfChunk } from './failure.ts'
import { usageFromWire } from './usage.ts'

/**
 * Reads one chunk of the stream. Nothing in it says that the answer is whole: it is when a reason to finish came and the
 * body ends.
 */
export function readChunk(data: string, progress: Progress, into: ChatEvent[]): false {
  const chunk = parseObject(data)
  if (chunk === null) throw faulty('a chunk is not a JSON object')
  if (asObject(chunk['error']) !== null) throw failureOfChunk(chunk, progress.begun)
  throwIfBlocked(chunk)

  const before = into.length
  const metadata = asObject(chunk['usageMetadata'])
  const usage = metadata === null ? null : usageFromWire(metadata)
  // Early chunks may count the prompt alone: told before their text, such a count is never taken for a total.
  const countsAnswer = metadata !== null && 'candidatesTokenCount' in metadata
  if (usage !== null && !countsAnswer) into.push({ kind: 'usage', usage })
  const candidate = firstOfIndex0(chunk['candidates'])
  if (candidate !== null) takeCandidate(candidate, progress, into)
  if (usage !== null && countsAnswer) into.push({ kind: 'usage', usage })
  if (into.length > before) progress.begun = true
  return false
}

function takeCandidate(candidate: JsonObject, progress: Progress, into: ChatEvent[]): void {
  const parts = asObject(candidate['content'])?.['parts']
  for (const value of Array.isArray(parts) ? parts : []) {
    const part = asObject(value)
    const text = asText(part?.['text'])
    if (text !== null) into.push({ kind: part?.['thought'] === true ? 'reasoning' : 'text', text })
  }
  const reason = finishFromWire(candidate['finishReason'])
  if (reason === null || progress.finished) return
  progress.finished = true
  into.push({ kind: 'finish', reason })
}

const FINISH_REASONS: ReadonlyMap<unknown, FinishReason> = new Map([
  ['STOP', 'stop'],
  ['MAX_TOKENS', 'length'],
  ['SAFETY', 'content_filter'],
  ['RECITATION', 'content_filter'],
  ['LANGUAGE', 'content_filter'],
  ['BLOCKLIST', 'content_filter'],
  ['PROHIBITED_CONTENT', 'content_filter'],
  ['SPII', 'content_filter'],
])

/**
 * Null while the answer goes on. All words but two tell of an answer that was not ended by its model; those that no filter
 * spoke (`OTHER`, `MALFORMED_FUNCTION_CALL`, words not known yet) are answers given up.
 */
function finishFromWire(value: unknown): FinishReason | null {
  if (value === null || value === undefined || value === '' || value === 'FINISH_REASON_UNSPECIFIED') return null
  const known = FINISH_REASONS.get(value)
  if (known === undefined) throw faulty(`the server gave the answer up${wordOf(value)}`)
  return known
}

/** A prompt that a filter blocked gets no answer at all. */
function throwIfBlocked(chunk: JsonObject): void {
  const reason = asObject(chunk['promptFeedback'])?.['blockReason'] ?? null
  if (reason === null || reason === 'BLOCK_REASON_UNSPECIFIED') return
  const message =
    "The model's provider blocked this prompt by its content rules. Nothing was charged. Change the messages."
  throw new ProviderFailure('rejected', `the prompt was blocked${wordOf(reason)}`, { publicMessage: message })
}

/** A server's word for the operator's log, where it looks like the word of a program. */
function wordOf(value: unknown): string {
  return typeof value === 'string' && /^[A-Z_]{1,48}$/.test(value) ? ` (${value})` : ''
}
