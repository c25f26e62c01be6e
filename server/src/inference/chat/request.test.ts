import { afterAll, expect, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import { SILENCE } from '../../../test/silence.ts'
import { priceTokens } from '../../billing/charges/pricing.ts'
import { type Model, tierOf } from '../../catalog/model.ts'
import type { FlatTokenPrice } from '../../catalog/price.ts'
import type { ChatMessage } from '../../providers/dialect/spec.ts'
import {
  type ChatRequest,
  chatWorstCase,
  outputTokensAtMost,
  promptOf,
  promptTokensAtMost,
  STEP_TOKENS,
} from './request.ts'
import { countPrompt, createTokenCounter } from './tokenCounter.ts'

const counter = createTokenCounter(SILENCE)
afterAll(() => counter.close())

const PRICE: FlatTokenPrice = { kind: 'tokens', inputMicrocents: 3n, outputMicrocents: 7n, cachedInputMicrocents: 1n }

const MODEL: Model = {
  id: 'svc/test',
  modality: 'chat',
  status: 'active',
  aliases: [],
  ownedBy: 'test',
  author: null,
  contextTokens: 4_096,
  maxOutputTokens: 1_000,
  hiddenReasoningTokens: 0,
  promptBytesPerToken: 64,
  createdSeconds: null,
  fineTunable: false,
  fineTuneBaseModel: null,
  parameters: [],
  planCovered: false,
  supportedParameters: [],
  usageFactorThousandths: 1_000,
  serverless: tierOf('serverless', PRICE, []),
  economy: null,
}

const request = (maxTokens: number | null): ChatRequest => ({
  model: MODEL.id,
  messages: [],
  stream: false,
  includeUsage: true,
  maxTokens,
  temperature: null,
})

const messages = fc.array(
  fc.record({
    role: fc.constantFrom('system', 'user', 'assistant'),
    content: fc.oneof(fc.string({ maxLength: 60 }), fc.string({ unit: 'binary', maxLength: 60 })),
  }),
  { minLength: 1, maxLength: 6 },
) as fc.Arbitrary<ChatMessage[]>

test('a prompt never comes to more tokens than it is held for, nor than the model takes', async () => {
  await fc.assert(
    fc.asyncProperty(messages, async (list) => {
      const most = promptTokensAtMost(promptOf(list), MODEL)
      const bytes = list.reduce((sum, { content }) => sum + Buffer.byteLength(content), 0)
      expect(most).toBeGreaterThanOrEqual(Math.min(bytes, MODEL.contextTokens))
      expect(await countPrompt(counter, list, 'an organization')).toBeLessThanOrEqual(most)
    }),
  )
  expect(promptTokensAtMost(promptOf([{ role: 'user', content: 'x'.repeat(100_000) }]), MODEL)).toBe(
    MODEL.contextTokens,
  )
  // Loading the tokenizer takes half a second of a free core.
}, 60_000)

test('an answer is at most what was asked for and what the model gives', () => {
  for (const [asked, most] of [
    [null, 1_000],
    [1, 1],
    [1_000, 1_000],
    [1_001, 1_000],
  ] as const) {
    expect(outputTokensAtMost(request(asked), MODEL)).toBe(most)
  }
})

test('no answer within its bounds costs more than the worst case, and the first step is part of it', () => {
  const rate = fc.bigInt({ min: 0n, max: 10n ** 12n })
  fc.assert(
    fc.property(
      rate,
      rate,
      fc.nat(5_000),
      fc.nat(5_000),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.nat(5_000),
      (inputMicrocents, outputMicrocents, promptMost, outputMost, promptPart, outputPart, hidden) => {
        const price = { inputMicrocents, outputMicrocents, cachedInputMicrocents: inputMicrocents / 2n }
        const worst = chatWorstCase(price, promptMost, outputMost, hidden)
        const promptTokens = Math.floor(promptMost * promptPart)
        const used = {
          promptTokens,
          cachedPromptTokens: Math.floor(promptTokens * outputPart),
          completionTokens: Math.floor(outputMost * outputPart),
        }
        expect(priceTokens(price, used) <= worst.wholeMicrocents).toBe(true)
        expect(worst.firstStepMicrocents <= worst.wholeMicrocents).toBe(true)
        // A model that says nothing at first is covered from the start.
        const silent = {
          promptTokens: promptMost,
          cachedPromptTokens: 0,
          completionTokens: Math.min(hidden, outputMost),
        }
        expect(priceTokens(price, silent) <= worst.firstStepMicrocents).toBe(true)
        if (outputMost <= STEP_TOKENS + hidden) expect(worst.firstStepMicrocents).toBe(worst.wholeMicrocents)
      },
    ),
  )
})

test('the worst case of a call is 0 only where neither its prompt nor its answer costs anything', () => {
  const least = promptTokensAtMost(promptOf([]), MODEL)
  const worst = (inputMicrocents: bigint, outputMicrocents: bigint) =>
    chatWorstCase({ inputMicrocents, outputMicrocents, cachedInputMicrocents: null }, least, 1, 0).wholeMicrocents
  expect([worst(0n, 0n), worst(1n, 0n), worst(0n, 1n)]).toEqual([0n, 1n, 1n])
})
