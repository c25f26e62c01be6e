/** What an upstream of the simulator does with one call, and the models that it serves. */

import { createCatalog, type Model, type Served, tierOf } from '../../src/catalog/model.ts'
import { type PriceTable, rateAt } from '../../src/catalog/price.ts'
import { type ChatAnswer, type ChatEvent, type Upstream, UpstreamFailure } from '../../src/upstream/spec.ts'
import type { Seeded } from '../faults/seeded.ts'
import type { Machine } from './machine.ts'

/** What `chat/request.ts` extends a hold by. */
export const STEP_TOKENS = 256
/** "hi": 2 bytes, 64 for the template and 16 for its message. */
export const PROMPT_TOKENS_AT_MOST = 82
/** Prompt tokens that an upstream reports above that, now and then. */
export const PROMPT_EXCESS_TOKENS = 40
export const MAX_OUTPUT_TOKENS = 2_048
export const CHARACTERS_PER_TOKEN = 4

export interface Script {
  /** Tokens of each piece of text, as the gateway estimates them from its length. */
  readonly pieces: readonly number[]
  readonly ending: 'finish' | 'no_usage' | 'breaks_off' | 'fails_at_once' | 'falls_silent'
  /** Beyond what the gateway has estimated; at most a step. */
  readonly unseenTokens: number
  readonly promptTokens: number
  readonly cachedTokens: number
}

export function makeScript(random: Seeded): Script {
  const pieces = Array.from({ length: random.between(1, 6) }, () => random.between(1, 300))
  const promptTokens = random.percent(10)
    ? PROMPT_TOKENS_AT_MOST + random.between(1, PROMPT_EXCESS_TOKENS)
    : random.between(1, PROMPT_TOKENS_AT_MOST)
  return {
    pieces,
    ending: random.pick([
      'finish',
      'finish',
      'finish',
      'finish',
      'no_usage',
      'breaks_off',
      'fails_at_once',
      'falls_silent',
    ]),
    unseenTokens: random.percent(15) ? random.between(1, STEP_TOKENS) : 0,
    promptTokens,
    cachedTokens: random.percent(30) ? random.between(0, promptTokens) : 0,
  }
}

/** An upstream that plays a script: each of its events is a letter to the machine of the gateway that asked. */
export function playScript(machine: Machine, script: Script, onAsked: () => void): Upstream {
  const arrive = (label: string) => new Promise<void>((resolve) => machine.deliver(label, resolve))
  return {
    name: 'mock',
    async chat(call, signal): Promise<ChatAnswer> {
      onAsked()
      await arrive('its upstream begins to answer')
      if (script.ending === 'fails_at_once') throw new UpstreamFailure('unavailable', 'made to fail')
      return { [Symbol.asyncIterator]: () => eventsOf(script, call.maxTokens, arrive, signal) }
    },
  }
}

async function* eventsOf(
  script: Script,
  maxTokens: number | null,
  arrive: (label: string) => Promise<void>,
  signal: AbortSignal,
): AsyncGenerator<ChatEvent, void> {
  let left = maxTokens ?? MAX_OUTPUT_TOKENS
  let said = 0
  for (const tokens of script.pieces) {
    const now = Math.min(tokens, left)
    if (now === 0) break
    await arrive(`its upstream says ${now} tokens`)
    if (signal.aborted) return
    said += now
    left -= now
    yield { kind: 'text', text: 'x'.repeat(now * CHARACTERS_PER_TOKEN) }
  }
  if (script.ending === 'falls_silent') await new Promise(() => {})
  await arrive('its upstream ends')
  if (script.ending === 'breaks_off') throw new UpstreamFailure('faulty', 'made to break off')
  yield { kind: 'finish', reason: left === 0 ? 'length' : 'stop' }
  if (script.ending === 'no_usage') return
  const completionTokens = said + Math.min(script.unseenTokens, left)
  yield {
    kind: 'usage',
    usage: { promptTokens: script.promptTokens, cachedPromptTokens: script.cachedTokens, completionTokens },
  }
}

function modelOf(id: string, price: PriceTable): Served {
  const tier = tierOf('serverless', price, [{ upstream: 'mock', model: 'test' }])
  const model: Model = {
    id,
    modality: 'chat',
    status: 'active',
    aliases: [],
    ownedBy: 'test',
    author: null,
    contextTokens: 100_000,
    maxOutputTokens: MAX_OUTPUT_TOKENS,
    hiddenReasoningTokens: 0,
    createdSeconds: null,
    fineTunable: false,
    fineTuneBaseModel: null,
    parameters: [],
    planCovered: false,
    supportedParameters: [],
    usageFactorThousandths: 1_000,
    serverless: tier,
    economy: null,
  }
  return { model, tier }
}

/** A million micro-cents for a million tokens: a token costs as many micro-cents as the factor says. */
const perToken = (microcents: bigint) => microcents * 1_000_000n

/** Models of one scale of prices: the same figures from micro-cents to dollars a token. */
export function modelsAt(scale: bigint): readonly Served[] {
  const flat = (input: bigint, output: bigint, cached: bigint | null) => ({
    inputMicrocents: perToken(input) * scale,
    outputMicrocents: perToken(output) * scale,
    cachedInputMicrocents: cached === null ? null : perToken(cached) * scale,
  })
  const odd = { inputMicrocents: 1_234_567n * scale, outputMicrocents: 2_345_678n * scale, cachedInputMicrocents: 0n }
  return [
    modelOf('svc/even', { kind: 'tokens', ...flat(1n, 1n, null) }),
    modelOf('svc/odd', { kind: 'tokens', ...odd }),
    modelOf('svc/timed', {
      kind: 'tokens_by_time',
      peak: flat(2n, 3n, 1n),
      offPeak: flat(1n, 2n, 1n),
      peakWindows: [{ startMinute: 0, endMinute: 720 }],
    }),
  ]
}

/** A model whose charges no database takes: its id has a character that text can't hold. */
export const poisonedAt = (scale: bigint): Served =>
  modelOf('svc/poi\0son', {
    kind: 'tokens',
    inputMicrocents: perToken(1n) * scale,
    outputMicrocents: perToken(1n) * scale,
    cachedInputMicrocents: null,
  })

const DEADLINES = { connectMs: 5_000, firstByteMs: 20_000, silenceMs: 10_000, wholeMs: 60_000 }
export const CATALOG = createCatalog([], [], DEADLINES)

/** What a usage costs, computed in another way than `money/pricing.ts` does it. */
export function costOf(served: Served, atMs: number, prompt: number, cached: number, completion: number): bigint {
  const { inputMicrocents, outputMicrocents, cachedInputMicrocents } = rateAt(served.tier.price, atMs)
  const exact =
    BigInt(prompt - cached) * inputMicrocents +
    BigInt(cached) * (cachedInputMicrocents ?? inputMicrocents) +
    BigInt(completion) * outputMicrocents
  const whole = exact / 1_000_000n
  return whole * 1_000_000n === exact ? whole : whole + 1n
}
