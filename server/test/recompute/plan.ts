/**
 * What each call of the random load is to be: decided by seed and number alone, so that client and upstream, which are
 * processes of their own, know the same of it without telling each other.
 */

import { type Seeded, seeded } from '../faults/seeded.ts'

/** Reported as it stands, `null` where the answer reports none. */
export interface WireUsage {
  readonly prompt: number
  readonly cached: number
  readonly completion: number
}

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

/** When the client leaves: at some moment, or once it has read so many words. */
export type HangUp =
  | { readonly kind: 'early'; readonly afterMs: number }
  | { readonly kind: 'words'; readonly after: number }

export interface CallPlan {
  readonly number: number
  readonly payer: Payer
  readonly model: number
  readonly isEconomy: boolean
  readonly stream: boolean
  /** Of `stream_options`; null: left to what is preset. */
  readonly includeUsage: boolean | null
  readonly maxTokens: number | null
  /** Pieces of reasoning, each a token, before the text. */
  readonly thoughts: number
  /** Pieces of text, each a word and a token. */
  readonly words: number
  readonly usageMode: UsageMode
  readonly usage: WireUsage
  readonly failure: Failure | null
  /** The failure comes after so many pieces. */
  readonly failsAfter: number
  /** Whether the second target fails too, where there is one. */
  readonly spareFails: boolean
  /** The upstream lets others have a turn after each piece, so that much can happen in the middle. */
  readonly isPaced: boolean
  readonly hangUp: HangUp | null
}

/** Who pays: organizations with more than enough, one whose credit runs out, one whose daily limit is reached. */
export const PAYERS = ['first', 'second', 'third', 'poor', 'capped'] as const
export type Payer = (typeof PAYERS)[number]

export const MODELS = 12
/** As the settings say for every model. Reported prompts beyond it are no usage. */
export const CONTEXT_TOKENS = 1_048_576
export const MAX_OUTPUT_TOKENS = 8_192

/** Of a prompt; more than any message of a run can be counted as, so that a charge shows which of the two it follows. */
const LEAST_REPORTED_TOKENS = 20

/** Every fourth model thinks before it speaks. */
const doesThink = (model: number) => model % 4 === 3
/** Every third model has a second target. */
export const hasSpare = (model: number) => model % 3 === 0
/** Every second model has an economy tier. */
export const hasEconomy = (model: number) => model % 2 === 0

/** Words of one token each for the tokenizer that counts where nothing is reported. */
const DIGITS = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine']

/** The only message of a call: its number, in words. */
export function messageOf(number: number): string {
  return `call ${[...String(number)].map((digit) => DIGITS[Number(digit)]).join(' ')}`
}

/** The number that a message says; NaN where it says none. */
export function numberOf(message: string): number {
  const [call, ...words] = message.split(' ')
  return call === 'call' ? Number(words.map((word) => DIGITS.indexOf(word)).join('')) : Number.NaN
}

export function planCall(seed: number, number: number): CallPlan {
  const random = seeded(Math.imul(seed, 1_000_003) + number)
  const payer = payerOf(random)
  let model = random.between(0, MODELS - 1)
  // A call that is cut while it thinks is charged, and its client has seen nothing of it to say which one it was.
  if (doesThink(model) && (payer === 'poor' || payer === 'capped')) model -= 1
  const stream = random.percent(60)
  const maxTokens = random.percent(25) ? random.between(1, 600) : null
  const thoughts = doesThink(model) ? random.between(0, Math.min(20, (maxTokens ?? 20) - 1)) : 0
  const words = Math.min(wordsOf(random, payer), (maxTokens ?? MAX_OUTPUT_TOKENS) - thoughts)
  const failure = random.percent(7) ? failureOf(random) : null
  const hangUp = failure === null && random.percent(12) ? hangUpOf(random, stream, words) : null
  const usageMode = usageModeOf(random)
  // Never between thoughts, nor where what came last is lost: see above.
  const failsAtOnce = words === 0 || (failure === 'reset' && thoughts > 0) || random.percent(40)
  return {
    number,
    payer,
    model,
    isEconomy: hasEconomy(model) && random.percent(40),
    stream,
    includeUsage: random.percent(30) ? random.percent(50) : null,
    maxTokens,
    thoughts,
    words,
    usageMode,
    usage: usageOf(random, payer, usageMode, thoughts, words),
    failure,
    failsAfter: failsAtOnce ? 0 : thoughts + random.between(1, words),
    spareFails: random.percent(30),
    isPaced: hangUp !== null || random.percent(20),
    hangUp,
  }
}

function payerOf(random: Seeded): Payer {
  const chance = random.between(1, 100)
  if (chance <= 2) return 'poor'
  if (chance <= 6) return 'capped'
  return random.pick(['first', 'second', 'third'])
}

/** Mostly short; some go on for several steps of a hold, above all where the money ends. */
function wordsOf(random: Seeded, payer: Payer): number {
  if (random.percent(1)) return 0
  return random.percent(payer === 'poor' || payer === 'capped' ? 50 : 3)
    ? random.between(200, 700)
    : random.between(1, 40)
}

function failureOf(random: Seeded): Failure {
  return random.pick(['refused', 'limited', 'page', 'short', 'short', 'reset', 'error', 'error'])
}

function hangUpOf(random: Seeded, stream: boolean, words: number): HangUp {
  if (stream && words > 0 && random.percent(65)) return { kind: 'words', after: random.between(1, words) }
  return { kind: 'early', afterMs: random.percent(30) ? 0 : random.between(1, 15) }
}

function usageModeOf(random: Seeded): UsageMode {
  const chance = random.between(1, 100)
  if (chance <= 45) return 'chunk'
  if (chance <= 60) return 'finish'
  if (chance <= 80) return 'running'
  if (chance <= 84) return 'behind'
  return chance <= 88 ? 'nonsense' : 'none'
}

function usageOf(random: Seeded, payer: Payer, mode: UsageMode, thoughts: number, words: number): WireUsage {
  const most = random.percent(4) ? 900_000 : 6_000
  // Never what a message would be counted as. The poor one's is no more than was held for: so its money ends in the
  // middle of answers, and not far below nothing.
  const prompt = random.between(LEAST_REPORTED_TOKENS, payer === 'poor' ? LEAST_REPORTED_TOKENS + 5 : most)
  const cached = random.percent(50) ? random.between(0, prompt) : 0
  // A model's own tokens are not ours: what it reports is charged, whatever we would have counted.
  const isItsOwn = payer !== 'poor' && mode !== 'running' && mode !== 'behind' && random.percent(40)
  return { prompt, cached, completion: isItsOwn ? random.between(0, 5_000) : thoughts + words }
}
