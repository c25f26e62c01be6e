import { SECOND_MS } from '../../../server/src/lib/time.ts'
import { Watchdog } from '../../../server/src/lib/watchdog.ts'
import { AnswerBrokeOff, AnswerLate, askedServer, openStream, PAID_DEADLINE_MS } from '../api.ts'
import type { CommandLine } from '../command.ts'
import { readEvents } from '../eventStream.ts'
import { CliFailure } from '../failure.ts'
import type { System } from '../system.ts'

/** The server says something every 15 s; a stream that is silent for so long is dead. */
const SILENCE_MS = 45 * SECOND_MS

const CHARGE = 'the tokens that it has may be charged'

export const COMPLETIONS = '/v1/chat/completions'

export interface Message {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

export interface ChatBody {
  readonly model: string
  readonly messages: readonly Message[]
  readonly max_tokens?: number
  readonly temperature?: number
}

export interface StreamedAnswer {
  readonly content: string
  /** Why it ended, such as `stop`; null when it broke off. */
  readonly finishReason: string | null
  readonly promptTokens: number
  readonly completionTokens: number
  /** Null when the server did not say. */
  readonly costMicrocents: bigint | null
}

interface Chunk {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string }
    readonly finish_reason?: string | null
  }[]
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number } | null
  readonly error?: { readonly message: string; readonly code: string }
}

/**
 * Asks for an answer and gives its text to `onText` as it comes. Throws {@link CliFailure} when it is refused or breaks off. `left` ends
 * it, with an error of its own; the server then charges for the tokens that were generated.
 */
export async function askChat(
  args: CommandLine,
  system: System,
  body: ChatBody,
  { left, onText }: { readonly left: AbortSignal; readonly onText: (text: string) => void },
): Promise<StreamedAnswer> {
  const over = new AbortController()
  const url = await askedServer(args, system)
  // Once the answer has begun, its reader looks at what has come.
  const watchdog = new Watchdog(system.clock, () => over.abort(new AnswerLate(url, PAID_DEADLINE_MS)))
  watchdog.due(system.clock.monotonicMs() + PAID_DEADLINE_MS)
  const gathered: Gathered = { content: '', finishReason: null, usage: null, costMicrocents: null, isDone: false }
  try {
    const call = { method: 'POST', path: COMPLETIONS, body: { ...body, stream: true } } as const
    const response = await openStream(args, system, call, AbortSignal.any([left, over.signal]))
    await readEvents(response, {
      onBytes: () => watchdog.due(system.clock.monotonicMs() + SILENCE_MS),
      onMessage: ({ data }) => take(gathered, data, onText),
      onComment: (comment) => takeComment(gathered, comment),
    })
  } finally {
    watchdog.stop()
  }
  left.throwIfAborted()
  if (!gathered.isDone) throw new AnswerBrokeOff(url, CHARGE)
  const { content, finishReason, usage, costMicrocents } = gathered
  const promptTokens = usage?.prompt_tokens ?? 0
  return { content, finishReason, promptTokens, completionTokens: usage?.completion_tokens ?? 0, costMicrocents }
}

interface Gathered {
  content: string
  finishReason: string | null
  usage: NonNullable<Chunk['usage']> | null
  costMicrocents: bigint | null
  isDone: boolean
}

function take(gathered: Gathered, data: string, onText: (text: string) => void): void {
  if (data === '[DONE]') {
    gathered.isDone = true
    return
  }
  const { choices, usage, error } = readChunk(data)
  if (error !== undefined) throw new CliFailure(error.message, { code: error.code })
  const [choice] = choices ?? []
  const text = choice?.delta?.content ?? ''
  gathered.content += text
  gathered.finishReason = choice?.finish_reason ?? gathered.finishReason
  gathered.usage = usage ?? gathered.usage
  if (text !== '') onText(text)
}

function readChunk(data: string): Chunk {
  try {
    return JSON.parse(data) as Chunk
  } catch {
    throw new CliFailure('the server sent an answer that is no chat answer: check the address')
  }
}

function takeComment(gathered: Gathered, comment: string): void {
  const [, cost] = /^svc-cost-microcents=([0-9]{1,18})$/.exec(comment.trim()) ?? []
  if (cost !== undefined) gathered.costMicrocents = BigInt(cost)
}
