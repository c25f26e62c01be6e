/** Calls through the gateway to a real llama.cpp, of which it is known beforehand how many tokens they take. */

import { systemClock } from '../../src/infra/clock.ts'
import type { TestKey } from '../gateway.ts'
import type { Seeded } from './seeded.ts'

export type Way = 'stream' | 'whole' | 'embeddings'

/**
 * The call that a client makes. Of the tiny model every letter is a token, and no answer ends before its most tokens.
 */
export interface LlamaCall {
  readonly way: Way
  readonly words: string
  readonly maxTokens: number
}

/** The outcome of one call. */
export interface LlamaOutcome {
  readonly call: LlamaCall
  /** Null: the caller has left before. */
  readonly status: number | null
  /** The answer came to its end, without an error in it. */
  readonly whole: boolean
  /** Its end, for a report of what is wrong. */
  readonly end: string
  readonly startedMs: number
  readonly endedMs: number
}

/** A call of a few tokens, chosen by a seed. */
export function planCall(random: Seeded): LlamaCall {
  const letters = Array.from({ length: random.between(1, 40) }, () => String.fromCharCode(97 + random.between(0, 25)))
  return {
    way: random.pick<Way>(['stream', 'stream', 'whole', 'whole', 'embeddings']),
    words: letters.join(''),
    maxTokens: random.between(1, 8),
  }
}

/** Makes a call. With `leaveAfterMs` its caller hangs up so long after sending it, unless it is over before. */
export async function makeCall(
  url: string,
  { key }: TestKey,
  call: LlamaCall,
  leaveAfterMs?: number,
): Promise<LlamaOutcome> {
  const { way, words, maxTokens } = call
  const messages = [{ role: 'user', content: words }]
  const asked =
    way === 'embeddings'
      ? { model: 'svc/words', input: words, encoding_format: 'float' }
      : // Drawn at random, an answer of the tiny model ends by itself in one call of 10,000.
        { model: 'svc/talk', messages, max_tokens: maxTokens, temperature: 0, stream: way === 'stream' }
  const startedMs = systemClock.monotonicMs()
  const ended = (status: number | null, whole: boolean, end: string): LlamaOutcome => {
    return { call, status, whole, end, startedMs, endedMs: systemClock.monotonicMs() }
  }
  const leaving = new AbortController()
  const stay = leaveAfterMs === undefined ? () => {} : systemClock.after(leaveAfterMs, () => leaving.abort())
  let status: number | null = null
  try {
    const response = await fetch(`${url}/${way === 'embeddings' ? 'embeddings' : 'chat/completions'}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}` },
      body: JSON.stringify(asked),
      signal: leaving.signal,
    })
    status = response.status
    const text = await response.text()
    const isWhole = way === 'stream' ? text.endsWith('data: [DONE]\n\n') && !text.includes('"error"') : status === 200
    return ended(status, status === 200 && isWhole, text.slice(-300))
  } catch (error) {
    return ended(status, false, leaving.signal.aborted ? 'the caller has left' : String(error))
  } finally {
    stay()
  }
}

/** A charge, as far as it follows from the call. */
export interface ChargedCall {
  readonly model: string
  readonly prompt: bigint
  readonly completion: bigint
}

/** Returns the charge that a call must get. `templateTokens`: of the chat template around one message. */
export function chargeOf({ way, words, maxTokens }: LlamaCall, templateTokens: number): ChargedCall {
  const isChat = way !== 'embeddings'
  return {
    model: isChat ? 'svc/talk' : 'svc/words',
    prompt: BigInt(words.length + (isChat ? templateTokens : 0)),
    completion: BigInt(isChat ? maxTokens : 0),
  }
}

/** A line for each, in an order of their own: two lists of the same calls are equal. */
export const linesOf = (charges: readonly ChargedCall[]) =>
  charges.map(({ model, prompt, completion }) => `${model} ${prompt} ${completion}`).sort()
