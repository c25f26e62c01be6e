import { faulty } from '../dialect/failure.ts'
import { asObject, asText, type JsonObject, parseObject } from '../dialect/json.ts'
import type { ChatEvent, FinishReason } from '../dialect/spec.ts'
import type { Progress, ReadEvent } from '../dialect/streamed.ts'
import { failureOfEvent } from './failure.ts'
import { usageFromWire } from './usage.ts'

const FINISH_REASONS: ReadonlyMap<unknown, FinishReason> = new Map([
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_use', 'tool_calls'],
  ['refusal', 'content_filter'],
])

/** Reads the events of one message. */
export function messageReader(): ReadEvent {
  const message = new MessageReader()
  return (data, progress, into) => message.take(data, progress, into)
}

/**
 * A message as it comes. Its first event tells only what the prompt came to, and an overloaded server sends its error after
 * that: the usage is kept back until there is something of an answer, so that another target may be asked until then.
 */
class MessageReader {
  private usage: JsonObject = {}
  private isKeptBack = false

  take(data: string, progress: Progress, into: ChatEvent[]): boolean {
    const event = parseObject(data)
    if (event === null) throw faulty('an event is not a JSON object')
    const before = into.length
    switch (event['type']) {
      case 'message_start':
        this.usage = asObject(asObject(event['message'])?.['usage']) ?? {}
        this.isKeptBack = true
        break
      case 'content_block_start':
        this.takeContent(asObject(event['content_block']), into)
        break
      case 'content_block_delta':
        this.takeContent(asObject(event['delta']), into)
        break
      case 'message_delta':
        this.takeEnd(event, progress, into)
        break
      case 'message_stop':
        return true
      case 'error':
        throw failureOfEvent(event, progress.begun)
      // `ping`, the ends of blocks, and the events that newer versions add.
      default:
    }
    if (into.length > before) progress.begun = true
    return false
  }

  /** A block's start or a piece of it: text, thinking, and much that is neither (signatures, tools). */
  private takeContent(content: JsonObject | null, into: ChatEvent[]): void {
    const text = asText(content?.['text'])
    const reasoning = asText(content?.['thinking'])
    if (text === null && reasoning === null) return
    this.tellUsage(into)
    if (reasoning !== null) into.push({ kind: 'reasoning', text: reasoning })
    if (text !== null) into.push({ kind: 'text', text })
  }

  /** Why it ended, and the usage of all of it. */
  private takeEnd(event: JsonObject, progress: Progress, into: ChatEvent[]): void {
    const reason = asObject(event['delta'])?.['stop_reason'] ?? null
    if (reason !== null && !progress.finished) {
      progress.finished = true
      into.push({ kind: 'finish', reason: FINISH_REASONS.get(reason) ?? 'stop' })
    }
    const total = Object.entries(asObject(event['usage']) ?? {}).filter(([, count]) => count !== null)
    // The output count of the first event is no total: once text has come, only an event with a newer count is told.
    this.isKeptBack ||= total.some(([name]) => name === 'output_tokens')
    this.usage = { ...this.usage, ...Object.fromEntries(total) }
    this.tellUsage(into)
  }

  private tellUsage(into: ChatEvent[]): void {
    if (!this.isKeptBack) return
    this.isKeptBack = false
    const usage = usageFromWire(this.usage)
    if (usage !== null) into.push({ kind: 'usage', usage })
  }
}
