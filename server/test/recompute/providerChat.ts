/** The answers of the provider of the random load to calls of chat, by their plans, and its record of them. */

import type { CallPlan } from './plan.ts'
import type { WireUsage } from './planUsage.ts'
import { spaced, THOUGHT } from './words.ts'

/**
 * The usage that was sent in answer to one attempt whose request was read to its end:
 * - `running`: the prompt's tokens of a total that came with each piece, `completion` being the pieces so far
 * - `middle`: a total that came after so many pieces, and more after it
 * - `final`: the total that came after everything
 */
export interface Sent {
  readonly call: number
  readonly target: string
  words: number
  thoughts: number
  running: Omit<WireUsage, 'completion'> | null
  middle: WireUsage | null
  final: WireUsage | null
  end: 'open' | 'whole' | 'broken' | 'refused' | 'cancelled'
}

export function emptySent(call: number, target: string): Sent {
  return { call, target, words: 0, thoughts: 0, running: null, middle: null, final: null, end: 'open' }
}

/** Each third count of output is partly in the total alone, as some servers count reasoning. */
const usageOnWire = ({ prompt, cached, completion }: WireUsage) => ({
  prompt_tokens: prompt,
  completion_tokens: completion % 3 === 0 ? completion / 3 : completion,
  total_tokens: prompt + completion,
  ...(cached > 0 ? { prompt_tokens_details: { cached_tokens: cached } } : {}),
})

/** No count of tokens can be any of these. */
function nonsense({ number, usage }: CallPlan): object {
  const good = usageOnWire(usage)
  const forms = [
    { ...good, completion_tokens: -1 },
    { ...good, prompt_tokens: 1.5 },
    { ...good, prompt_tokens: String(usage.prompt) },
    { ...good, prompt_tokens_details: { cached_tokens: usage.prompt + 1 } },
    { ...good, completion_tokens: 2e9 },
  ]
  return forms[number % forms.length] ?? good
}

const event = (choices: readonly object[], more: object = {}) => `data: ${JSON.stringify({ choices, ...more })}\n\n`
const choice = (delta: object, finish: 'stop' | null = null) => ({ index: 0, delta, finish_reason: finish })
const DONE = 'data: [DONE]\n\n'

/** Parts of the second answer, which ends in another way than the first. */
const glued = (pieces: number) => ({
  index: 1,
  delta: { content: ' other' },
  finish_reason: pieces === 2 ? 'length' : null,
})

/** The choices of a chunk, with the second answer's behind, before or in a chunk of its own. */
function chunk({ isGlued, number }: CallPlan, own: object, pieces: number, more: object = {}): string {
  if (!isGlued) return event([own], more)
  if (number % 3 === 0) return event([own, glued(pieces)], more)
  if (number % 3 === 1) return event([glued(pieces), own], more)
  return event([glued(pieces)]) + event([own], more)
}

/** One piece of the answer, and in `sent` that it has gone out. */
function piece(plan: CallPlan, sent: Sent): string {
  const isThought = sent.thoughts < plan.thoughts
  if (isThought) sent.thoughts += 1
  else sent.words += 1
  const own = choice(isThought ? { reasoning_content: THOUGHT } : { content: spaced(plan.word) })
  const pieces = sent.thoughts + sent.words
  const { prompt, cached } = plan.usage
  const usage = { prompt, cached, completion: pieces }
  if (plan.usageMode === 'running') sent.running = { prompt, cached }
  else if (plan.usageMode === 'behind' && pieces === Math.ceil((plan.thoughts + plan.words) / 2)) sent.middle = usage
  else return chunk(plan, own, pieces)
  return chunk(plan, own, pieces, { usage: usageOnWire(usage) })
}

/** A part of the answer, or milliseconds of silence before the next. */
export type Part = string | number

/** The parts of the answer; `end` is called once it is known how it ends, and before its last part. */
export function* partsOf(
  plan: CallPlan,
  sent: Sent,
  fails: boolean,
  end: (how: Sent['end']) => void,
): Generator<Part, void> {
  for (let pieces = 0; ; pieces += 1) {
    if (fails && pieces === plan.failsAfter) {
      // Nothing but an error is a refusal, whatever the status said.
      end(plan.failure === 'error' && pieces === 0 ? 'refused' : 'broken')
      if (plan.failure === 'error') yield `data: ${JSON.stringify({ error: { message: 'no', code: 500 } })}\n\n`
      return
    }
    if (pieces === plan.thoughts + plan.words) break
    yield piece(plan, sent)
  }
  yield* lastOf(plan, sent, end)
}

function* lastOf(plan: CallPlan, sent: Sent, end: (how: Sent['end']) => void): Generator<Part, void> {
  const { usageMode, usage, endsAfterMs, number } = plan
  const finish = choice({}, 'stop')
  if (endsAfterMs > 0 && number % 2 === 0) yield endsAfterMs
  if (usageMode === 'chunk') yield event([finish])
  if (endsAfterMs > 0 && number % 2 === 1) yield endsAfterMs
  if (usageMode === 'chunk' || usageMode === 'finish' || usageMode === 'running') sent.final = usage
  end('whole')
  if (usageMode === 'chunk') yield event([], { usage: usageOnWire(usage) }) + DONE
  else if (usageMode === 'nonsense') yield event([finish], { usage: nonsense(plan) }) + DONE
  else yield event([finish], sent.final === null ? {} : { usage: usageOnWire(usage) }) + DONE
}
