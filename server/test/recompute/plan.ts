/**
 * The plan of each call of the random load: decided by seed and number alone, so that client and provider, which are
 * processes of their own, know the same of it without telling each other.
 */

import { type Seeded, seeded } from '../faults/seeded.ts'
import { bytesOf, type PromptMessage, promptOf, promptTokensOf } from './planPrompt.ts'
import { usageOf, type WireUsage } from './planUsage.ts'
import { spaced, THOUGHT, WORDS, type Word, wordsMost } from './words.ts'

/**
 * - `chunk`: in a chunk of its own after the finish reason, as OpenAI does
 * - `finish`: beside the finish reason
 * - `running`: a running total in every chunk
 * - `behind`: in the middle, with more text after it
 * - `nonsense`: in a form that can't be true
 */
export type UsageMode = 'chunk' | 'finish' | 'running' | 'behind' | 'nonsense' | 'none'

/**
 * - `refused`, `limited`: 503 and 429 before anything
 * - `page`: a web page in place of an answer
 * - `short`: a body that ends properly in mid-answer
 * - `reset`: a connection that ends in the middle of a body
 * - `error`: an error object in mid-answer
 */
export type Failure = 'refused' | 'limited' | 'page' | 'short' | 'reset' | 'error'

/** When the client leaves: at some moment, once it has read so many words, or once it has read the last chunk. */
export type HangUp =
  | { readonly kind: 'early'; readonly afterMs: number }
  | { readonly kind: 'words'; readonly after: number }
  | { readonly kind: 'end' }

export interface CallPlan {
  readonly number: number
  readonly payer: Payer
  readonly model: number
  readonly isEconomy: boolean
  readonly stream: boolean
  /** Of `stream_options`; null: left to what is preset. */
  readonly includeUsage: boolean | null
  readonly maxTokens: number | null
  readonly messages: readonly PromptMessage[]
  /** Pieces of reasoning, each a token, before the text. */
  readonly thoughts: number
  /** Pieces of text, each this word and a token. */
  readonly words: number
  readonly word: Word
  /** The provider makes a second answer, as choice 1, that nobody asked for. */
  readonly isGlued: boolean
  readonly usageMode: UsageMode
  readonly usage: WireUsage
  readonly failure: Failure | null
  /** The failure comes after so many pieces. */
  readonly failsAfter: number
  /** True when the second target fails too, where there is one. */
  readonly spareFails: boolean
  /** The provider lets others have a turn after each piece, so that much can happen in the middle. */
  readonly isPaced: boolean
  readonly hangUp: HangUp | null
  /** The provider keeps silent so long once it has read the request, before what ends the text, and before the usage. */
  readonly beginsAfterMs: number
  readonly endsAfterMs: number
}

/** The payers: organizations with more than enough, one whose credit runs out, one whose daily limit is reached. */
export const PAYERS = ['first', 'second', 'third', 'poor', 'capped'] as const
export type Payer = (typeof PAYERS)[number]

export const MODELS = 12
const CONTEXT_TOKENS = 1_048_576
const MAX_OUTPUT_TOKENS = 8_192

/** Two models are so small that a prompt and an answer fill them, and one is in between. */
export function contextOf(model: number): number {
  if (model === 4 || model === 8) return 512
  return model === 5 ? 4_096 : CONTEXT_TOKENS
}

export function maxOutputOf(model: number): number {
  return Math.min(MAX_OUTPUT_TOKENS, contextOf(model) / 2)
}

/** Every fourth model thinks before it speaks. */
const doesThink = (model: number) => model % 4 === 3
/** Every third model has a second target. */
export const hasSpare = (model: number) => model % 3 === 0
/** Milliseconds after which the second target is asked too; null: never. */
export const hedgeAfterMsOf = (model: number) => (model === 6 ? 6 : null)
/** Every second model has an economy tier. */
export const hasEconomy = (model: number) => model % 2 === 0

export function planCall(seed: number, number: number): CallPlan {
  const random = seeded(Math.imul(seed, 1_000_003) + number)
  const payer = payerOf(random)
  const hasLittle = payer === 'poor' || payer === 'capped'
  let model = random.between(0, MODELS - 1)
  // A call that is cut while it thinks is charged, and its client has seen nothing of it to say which one it was.
  if (doesThink(model) && hasLittle) model -= 1
  const messages = promptOf(random, number, contextOf(model), hasLittle)
  const stream = random.percent(60)
  const maxTokens = random.percent(25) ? random.between(1, 600) : null
  const thoughts = doesThink(model) ? random.between(0, Math.min(20, (maxTokens ?? 20) - 1)) : 0
  const word = random.pick(WORDS)
  // Some go on beyond the limit that they were told.
  const wordsLimit = maxTokens === null || random.percent(8) ? MAX_OUTPUT_TOKENS : maxTokens - thoughts
  const words = Math.min(wordsOf(random, hasLittle), wordsLimit, wordsMost(word))
  const failure = random.percent(7) ? failureOf(random) : null
  const isRefusal = failure === 'refused' || failure === 'limited'
  const hangUp =
    (failure === null || isRefusal) && random.percent(15) ? hangUpOf(random, stream && !isRefusal, words) : null
  const usageMode = usageModeOf(random)
  // Never between thoughts, nor where what came last is lost: see above.
  const failsAtOnce = words === 0 || (failure === 'reset' && thoughts > 0) || random.percent(40)
  const truth = {
    promptTokens: promptTokensOf(messages),
    promptBytes: bytesOf(messages),
    outputTokens: thoughts + words,
    outputBytes: thoughts * THOUGHT.length + words * spaced(word).length,
    contextTokens: contextOf(model),
    maxTokens,
  }
  return {
    number,
    payer,
    model,
    isEconomy: hasEconomy(model) && random.percent(40),
    stream,
    includeUsage: random.percent(30) ? random.percent(50) : null,
    maxTokens,
    messages,
    thoughts,
    words,
    word,
    isGlued: random.percent(5),
    usageMode,
    usage: usageOf(random, truth),
    failure,
    failsAfter: failsAtOnce ? 0 : thoughts + random.between(1, words),
    spareFails: random.percent(30),
    isPaced: hangUp !== null || random.percent(20),
    hangUp,
    beginsAfterMs: hangUp?.kind === 'early' ? random.between(0, 16) : 0,
    endsAfterMs: hangUp !== null && hangUp.kind !== 'early' ? random.between(0, 8) : 0,
  }
}

function payerOf(random: Seeded): Payer {
  const chance = random.between(1, 100)
  if (chance <= 2) return 'poor'
  if (chance <= 6) return 'capped'
  return random.pick(['first', 'second', 'third'])
}

/** Mostly short; some go on for several steps of a hold, above all where the money ends. */
function wordsOf(random: Seeded, hasLittle: boolean): number {
  if (random.percent(1)) return 0
  return random.percent(hasLittle ? 50 : 3) ? random.between(200, 700) : random.between(1, 40)
}

function failureOf(random: Seeded): Failure {
  return random.pick(['refused', 'limited', 'page', 'short', 'short', 'reset', 'error', 'error'])
}

/** Before the answer, after any word, before the usage, and after the last chunk. */
function hangUpOf(random: Seeded, streams: boolean, words: number): HangUp {
  const chance = random.between(1, 100)
  if (!streams || words === 0 || chance <= 40) {
    return { kind: 'early', afterMs: random.percent(20) ? 0 : random.between(1, 15) }
  }
  if (chance <= 75) return { kind: 'words', after: random.between(1, words) }
  return chance <= 90 ? { kind: 'words', after: words } : { kind: 'end' }
}

function usageModeOf(random: Seeded): UsageMode {
  const chance = random.between(1, 100)
  if (chance <= 45) return 'chunk'
  if (chance <= 60) return 'finish'
  if (chance <= 78) return 'running'
  if (chance <= 82) return 'behind'
  return chance <= 86 ? 'nonsense' : 'none'
}
