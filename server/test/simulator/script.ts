/** The script of a provider of the simulator for one call, and the models that it serves. */

import { createCatalog, DEFAULT_ROUTING, type Model, type ResolvedModel, tierOf } from '../../src/catalog/model.ts'
import { type PriceTable, rateAt } from '../../src/catalog/price.ts'
import type { CallSignal } from '../../src/lib/callSignal.ts'
import { type ChatAnswer, type ChatEvent, type Provider, ProviderFailure } from '../../src/providers/dialect/spec.ts'
import type { Seeded } from '../faults/seeded.ts'
import type { Machine } from './machine.ts'

/** The tokens that `inference/chat/request.ts` extends a hold by. */
export const STEP_TOKENS = 256
export const MAX_OUTPUT_TOKENS = 2_048
export const CHARACTERS_PER_TOKEN = 4
/** Prompts of 2,000 characters, and answers of some steps, pass it. */
const CONTEXT_TOKENS = 3_000

/**
 * The behaviour of a target that is asked before the others: it is not there, or refuses with or without the whole
 * request.
 */
const FIRST_TARGETS = ['is_not_there', 'is_not_there', 'is_not_there', 'refuses', 'is_not_reached'] as const

export interface Script {
  /** Of the only message. */
  readonly promptCharacters: number
  readonly firstTarget: (typeof FIRST_TARGETS)[number]
  /** Tokens of each piece of text, as the gateway estimates them from its length. */
  readonly pieces: readonly number[]
  /** Says more than it was told to. */
  readonly ignoresLimit: boolean
  readonly ending: 'finish' | 'no_usage' | 'breaks_off' | 'fails_at_once' | 'falls_silent'
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly output: OutputReport
}

/** The reported count of the output: the tokens that were said, or some that nobody saw with them, or a lie. */
export type OutputReport =
  | { readonly kind: 'said'; readonly unseenTokens: number }
  | { readonly kind: 'share'; readonly times: number }
  | { readonly kind: 'exactly'; readonly tokens: number }

export function makeScript(random: Seeded): Script {
  const promptCharacters = random.pick([2, 2, 40, 400, 2_000])
  const promptTokens = reportedPrompt(random, promptCharacters)
  return {
    promptCharacters,
    firstTarget: random.pick(FIRST_TARGETS),
    pieces: Array.from({ length: random.between(1, 6) }, () => random.between(1, random.percent(10) ? 900 : 300)),
    ignoresLimit: random.percent(10),
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
    promptTokens,
    cachedTokens: random.percent(30) ? random.between(0, promptTokens) : 0,
    output: outputReport(random),
  }
}

/** True mostly; far too few, and more than there can be, now and then. */
function reportedPrompt(random: Seeded, characters: number): number {
  const counted = promptCount(characters)
  const chance = random.between(1, 100)
  if (chance <= 60) return counted + random.between(0, 20)
  if (chance <= 80) return Math.floor(counted * random.pick([0, 0.1, 0.45, 0.5, 0.55]))
  if (chance <= 95) return characters + random.between(1, 400)
  return CONTEXT_TOKENS + random.between(-1, 1)
}

function outputReport(random: Seeded): OutputReport {
  const chance = random.between(1, 100)
  if (chance <= 55) return { kind: 'said', unseenTokens: 0 }
  if (chance <= 70) return { kind: 'said', unseenTokens: random.between(1, 4 * STEP_TOKENS) }
  if (chance <= 90) return { kind: 'share', times: random.pick([0, 0.1, 0.45, 0.5, 0.55]) }
  return { kind: 'exactly', tokens: CONTEXT_TOKENS + random.pick([-100, 0, 1, 1_000_000]) }
}

/** A count of ours: of the message, and of its form. */
export function promptCount(characters: number): number {
  return Math.ceil(characters / CHARACTERS_PER_TOKEN) + 4
}

/** The most that a prompt is charged for: a token a byte, 64 for the template and 16 for its message. */
export function promptAtMost(characters: number): number {
  return Math.min(characters + 64 + 16, CONTEXT_TOKENS)
}

/** The tokens of a whole answer. */
export function saidTokens({ pieces, ignoresLimit }: Script, maxTokens: number | null): number {
  const sum = pieces.reduce((total, tokens) => total + tokens, 0)
  return Math.min(sum, ignoresLimit ? Number.POSITIVE_INFINITY : (maxTokens ?? MAX_OUTPUT_TOKENS))
}

/** The tokens of output that are reported once so many were said. */
export function reportedOutput({ output }: Script, said: number): number {
  if (output.kind === 'exactly') return output.tokens
  return output.kind === 'share' ? Math.floor(said * output.times) : said + output.unseenTokens
}

/** Told what a target does, as far as a customer may have to pay for it. */
export interface TargetWatch {
  /** It has been asked. */
  readonly onAsked: () => void
  /** It has the whole request. */
  readonly onWritten: (target: string) => void
  /** It has failed, and is not at work any more. */
  readonly onFailed: (target: string) => void
  readonly onUsage: () => void
}

/** The targets of a model: providers that play a script, each of its events a letter to the machine of the gateway that asked. */
export function targetsFor(machine: Machine, script: Script, hasSpare: boolean, watch: TargetWatch): Provider[] {
  const own = playScript('mock', machine, script, watch)
  const all = hasSpare ? [own, playScript('spare', machine, script, watch)] : [own]
  return script.firstTarget === 'is_not_there' ? all : [refusing(machine, script, watch), ...all]
}

const arriveAt = (machine: Machine, label: string) => new Promise<void>((resolve) => machine.deliver(label, resolve))

function refusing(machine: Machine, { firstTarget }: Script, { onAsked, onWritten, onFailed }: TargetWatch): Provider {
  const name = 'first'
  return {
    name,
    async chat(_, signal, __, toldWritten): Promise<ChatAnswer> {
      onAsked()
      if (firstTarget === 'refuses') {
        await arriveAt(machine, 'its first provider has the request')
        signal.throwIfAborted()
        onWritten(name)
        toldWritten?.()
      }
      await arriveAt(machine, 'its first provider refuses')
      if (!signal.aborted) onFailed(name)
      throw new ProviderFailure('unavailable', 'made to refuse', { mayFailOver: true, mayAskAgain: true })
    },
  }
}

function playScript(name: string, machine: Machine, script: Script, watch: TargetWatch): Provider {
  return {
    name,
    async chat(call, signal, _, toldWritten): Promise<ChatAnswer> {
      watch.onAsked()
      await arriveAt(machine, 'its provider has the request')
      signal.throwIfAborted()
      watch.onWritten(name)
      toldWritten?.()
      await arriveAt(machine, 'its provider begins to answer')
      const fail = (failure: ProviderFailure) => {
        if (!signal.aborted) watch.onFailed(name)
        return failure
      }
      if (script.ending === 'fails_at_once') throw fail(new ProviderFailure('unavailable', 'made to fail'))
      const events = () => eventsOf(script, call.maxTokens, machine, signal, fail, watch.onUsage)
      return { [Symbol.asyncIterator]: events }
    },
  }
}

async function* eventsOf(
  script: Script,
  maxTokens: number | null,
  machine: Machine,
  signal: CallSignal,
  fail: (failure: ProviderFailure) => ProviderFailure,
  onUsage: () => void,
): AsyncGenerator<ChatEvent, void> {
  const all = saidTokens(script, maxTokens)
  let said = 0
  for (const tokens of script.pieces) {
    const now = Math.min(tokens, all - said)
    if (now === 0) break
    await arriveAt(machine, `its provider says ${now} tokens`)
    if (signal.aborted) return
    said += now
    yield { kind: 'text', text: 'x'.repeat(now * CHARACTERS_PER_TOKEN) }
  }
  if (script.ending === 'falls_silent') await new Promise(() => {})
  await arriveAt(machine, 'its provider ends')
  if (script.ending === 'breaks_off') throw fail(new ProviderFailure('faulty', 'made to break off'))
  yield { kind: 'finish', reason: all === maxTokens ? 'length' : 'stop' }
  if (script.ending === 'no_usage') return
  const { promptTokens, cachedTokens: cachedPromptTokens } = script
  onUsage()
  yield { kind: 'usage', usage: { promptTokens, cachedPromptTokens, completionTokens: reportedOutput(script, said) } }
}

function modelOf(id: string, price: PriceTable, hedgeAfterMs: number | null = null): ResolvedModel {
  const routing = { ...DEFAULT_ROUTING.serverless, hedgeAfterMs }
  const tier = tierOf('serverless', price, [{ provider: 'mock', model: 'test' }], routing)
  const model: Model = {
    id,
    modality: 'chat',
    status: 'active',
    aliases: [],
    ownedBy: 'test',
    author: null,
    contextTokens: CONTEXT_TOKENS,
    maxOutputTokens: MAX_OUTPUT_TOKENS,
    hiddenReasoningTokens: 0,
    promptBytesPerToken: 64,
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

/** Of one model: so short that it is often asked twice. */
const HEDGE_AFTER_MS = 3

/** A million micro-cents for a million tokens: a token costs as many micro-cents as the factor says. */
const perToken = (microcents: bigint) => microcents * 1_000_000n

/** Models of one scale of prices: the same figures from micro-cents to dollars a token. */
export function modelsAt(scale: bigint): readonly ResolvedModel[] {
  const flat = (input: bigint, output: bigint, cached: bigint | null) => ({
    inputMicrocents: perToken(input) * scale,
    outputMicrocents: perToken(output) * scale,
    cachedInputMicrocents: cached === null ? null : perToken(cached) * scale,
  })
  const odd = { inputMicrocents: 1_234_567n * scale, outputMicrocents: 2_345_678n * scale, cachedInputMicrocents: 0n }
  return [
    modelOf('svc/even', { kind: 'tokens', ...flat(1n, 1n, null) }),
    modelOf('svc/odd', { kind: 'tokens', ...odd }),
    modelOf(
      'svc/timed',
      {
        kind: 'tokens_by_time',
        peak: flat(2n, 3n, 1n),
        offPeak: flat(1n, 2n, 1n),
        peakWindows: [{ startMinute: 0, endMinute: 720 }],
      },
      HEDGE_AFTER_MS,
    ),
  ]
}

/** A model whose charges no database takes: its id has a character that text can't hold. */
export const poisonedAt = (scale: bigint): ResolvedModel =>
  modelOf('svc/poi\0son', {
    kind: 'tokens',
    inputMicrocents: perToken(1n) * scale,
    outputMicrocents: perToken(1n) * scale,
    cachedInputMicrocents: null,
  })

const DEADLINES = { connectMs: 5_000, firstByteMs: 20_000, silenceMs: 10_000, wholeMs: 60_000 }
export const CATALOG = createCatalog([], [], DEADLINES)

/** Returns the cost of a usage, computed in another way than `billing/charges/pricing.ts` does it. */
export function costOf(
  resolved: ResolvedModel,
  atMs: number,
  prompt: number,
  cached: number,
  completion: number,
): bigint {
  const { inputMicrocents, outputMicrocents, cachedInputMicrocents } = rateAt(resolved.tier.price, atMs)
  const exact =
    BigInt(prompt - cached) * inputMicrocents +
    BigInt(cached) * (cachedInputMicrocents ?? inputMicrocents) +
    BigInt(completion) * outputMicrocents
  const whole = exact / 1_000_000n
  return whole * 1_000_000n === exact ? whole : whole + 1n
}
