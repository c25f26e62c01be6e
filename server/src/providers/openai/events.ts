import { asObject, asText, firstOfIndex0, type JsonObject, parseObject } from '../dialect/json.ts'
import { type ChatEvent, type FinishReason, ProviderFailure } from '../dialect/spec.ts'
import type { Progress } from '../dialect/streamed.ts'
import { failureOfChunk, isErrorObject } from './failure.ts'
import { usageFromWire } from './usage.ts'

/** One event of the stream: a chunk, or the words that the answer is whole. */
export function readChunk(data: string, progress: Progress, into: ChatEvent[]): boolean {
  if (data === '[DONE]') return true
  eventsFromWire(data, progress, into)
  return false
}

/**
 * Appends to `into` what one chunk, or a whole completion in place of a stream, says. Throws ProviderFailure for an error
 * object, for a chunk that is not a JSON object, for parts of the wrong type (C7: their text would be lost silently), and for an
 * answer that its server gave up.
 */
export function eventsFromWire(data: string, progress: Progress, into: ChatEvent[]): void {
  const chunk = parseObject(data)
  if (chunk === null) throw new ProviderFailure('faulty', 'a chunk is not a JSON object')
  if (isErrorObject(chunk)) throw failureOfChunk(chunk, progress.begun)

  const before = into.length
  // Usage comes with `choices: []` (OpenAI), in every chunk (vLLM's continuous usage), or in the last one.
  const { choices } = chunk
  if (isPresent(choices) && !Array.isArray(choices)) throw misaligned('choices')
  const choice = firstOfIndex0(choices)
  if (choice !== null) choiceFromWire(choice, progress, into)
  const usage = usageFromWire(chunk['usage'])
  if (usage !== null) into.push({ kind: 'usage', usage })
  if (into.length > before) progress.begun = true
}

function choiceFromWire(choice: JsonObject, progress: Progress, into: ChatEvent[]): void {
  const said = choice['delta'] ?? choice['message']
  const delta = asObject(said)
  if (isPresent(said) && delta === null) throw misaligned('delta')
  if (delta !== null) {
    // `reasoning_content`: vLLM before 0.11, SGLang, llama.cpp, DeepSeek. `reasoning`: Ollama, vLLM since. Some send both
    // with the same text: it is counted once.
    const reasoning = asText(delta['reasoning_content']) ?? asText(delta['reasoning'])
    if (reasoning !== null) into.push({ kind: 'reasoning', text: reasoning })
    const { content } = delta
    if (isPresent(content) && typeof content !== 'string') throw misaligned('content')
    const text = asText(content)
    if (text !== null) into.push({ kind: 'text', text })
  }
  const reason = finishFromWire(choice['finish_reason'])
  if (reason !== null && !progress.finished) {
    progress.finished = true
    into.push({ kind: 'finish', reason })
  }
}

const isPresent = (value: unknown) => value !== undefined && value !== null

const misaligned = (name: string) => new ProviderFailure('faulty', `the ${name} of a chunk has a wrong type`)

const FINISH_REASONS: ReadonlyMap<unknown, FinishReason | 'gave up'> = new Map([
  ['length', 'length'],
  ['content_filter', 'content_filter'],
  ['tool_calls', 'tool_calls'],
  ['function_call', 'tool_calls'],
  // vLLM and SGLang: the request was aborted at their side. OpenRouter: the provider broke off.
  ['abort', 'gave up'],
  ['error', 'gave up'],
])

/** Null while the answer goes on. Throws for the words with which a server says that it gave up. */
function finishFromWire(value: unknown): FinishReason | null {
  if (value === null || value === undefined || value === '') return null
  const known = FINISH_REASONS.get(value)
  // The many words for an ordinary end (`eos`, `eos_token`, `stop_sequence`, …) are one.
  if (known === undefined) return 'stop'
  if (known === 'gave up') throw new ProviderFailure('faulty', 'the server gave the answer up')
  return known
}
