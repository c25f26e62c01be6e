/** A chat call on real money: a scripted provider, one organization, and a client that may leave. */

import { expect } from 'bun:test'
import { readBalance } from '../src/billing/admission/balance/balance.ts'
import { createCatalog, type Model, type ResolvedModel, tierOf } from '../src/catalog/model.ts'
import type { FlatTokenPrice } from '../src/catalog/price.ts'
import { DEFAULT_DEADLINES } from '../src/catalog/provider.ts'
import { completeStreamed, completeWhole } from '../src/inference/chat/complete.ts'
import type { ChatDependencies } from '../src/inference/chat/dependencies.ts'
import type { StreamedReply, WholeReply } from '../src/inference/chat/reply.ts'
import type { ChatRequest } from '../src/inference/chat/request.ts'
import { countText } from '../src/inference/chat/tokens.ts'
import type { CallSignal } from '../src/lib/callSignal.ts'
import { type Result, refused } from '../src/lib/result.ts'
import type { ChatEvent, Provider } from '../src/providers/dialect/spec.ts'
import { Health } from '../src/routing/health.ts'
import { TurnedClock } from './clock.ts'
import { type Fault, type House, openTill, type Till, withFaults } from './moneyHouse.ts'
import { scriptedAnswer } from './scriptedAnswer.ts'
import { SILENCE } from './silence.ts'

export const NOON_MS = Date.UTC(2030, 0, 15, 12)
/** A token costs a micro-cent, of prompt and answer alike. */
const PRICE: FlatTokenPrice = {
  kind: 'tokens',
  inputMicrocents: 1_000_000n,
  outputMicrocents: 1_000_000n,
  cachedInputMicrocents: null,
}
const TIER = tierOf('serverless', PRICE, [{ provider: 'mock', model: 'test' }])
const MODEL: Model = {
  id: 'svc/test',
  modality: 'chat',
  status: 'active',
  aliases: [],
  ownedBy: 'test',
  author: null,
  contextTokens: 100_000,
  maxOutputTokens: 50_000,
  hiddenReasoningTokens: 0,
  promptBytesPerToken: 64,
  createdSeconds: null,
  fineTunable: false,
  fineTuneBaseModel: null,
  parameters: [],
  planCovered: false,
  supportedParameters: [],
  usageFactorThousandths: 1_000,
  serverless: TIER,
  economy: null,
}
const SERVED: ResolvedModel = { model: MODEL, tier: TIER }
const KEY = '00000000-0000-4000-8000-000000000001'
/** The most tokens of the prompt "hi": 2 bytes, 64 for the template and 16 for its message. */
export const PROMPT_AT_MOST = 82

export interface ChatStage {
  readonly till: Till
  readonly clock: TurnedClock
  readonly organization: string
  readonly client: AbortController
  /** Returns how many calls reached the provider. */
  readonly asked: () => number
  /** Returns whether the last call's provider was told to stop. */
  readonly cancelled: () => boolean
  fault: Fault
  /** Asks for a whole answer, and commits nothing. */
  prepared(maxTokens?: number | null): Promise<Result<WholeReply>>
  /** Asks for a whole answer, and commits it as the door does. */
  call(maxTokens?: number | null): Promise<Result<WholeReply>>
  /** Asks for a stream. */
  stream(maxTokens?: number | null): Promise<Result<StreamedReply>>
  balance(): Promise<bigint>
  /** Nothing is held, and the books agree. */
  expectClean(): Promise<void>
}

export type Script = readonly (ChatEvent | Error | (() => Promise<void> | void))[]

const callerOf = (organizationId: string, client: AbortController) => ({
  traceparent: null,
  organizationId,
  keyId: KEY,
  isClientGone: () => client.signal.aborted,
})

/** Opens a stage; `script` says what the provider does when a call reaches it. */
export async function openChatStage(
  house: House,
  credit: bigint,
  script: (stage: ChatStage) => Script | Error,
): Promise<ChatStage> {
  const clock = new TurnedClock(NOON_MS)
  const organization = await house.organization(credit)
  const till = openTill(
    withFaults(house.database, () => made.fault),
    0,
    clock,
  )
  let calls = 0
  let last: CallSignal | null = null
  const provider: Provider = {
    name: 'mock',
    async chat(_, signal) {
      calls += 1
      last = signal
      const steps = script(made)
      if (steps instanceof Error) throw steps
      return scriptedAnswer(steps)
    },
  }
  const client = new AbortController()
  const caller = callerOf(organization, client)
  const asked = (stream: boolean, maxTokens: number | null): ChatRequest => ({
    model: MODEL.id,
    messages: [{ role: 'user', content: 'hi' }],
    stream,
    includeUsage: true,
    maxTokens,
    temperature: null,
  })
  const dependencies: ChatDependencies = {
    clock,
    log: SILENCE,
    money: till,
    catalog: () => createCatalog([MODEL], [], DEFAULT_DEADLINES),
    providers: { targetsOf: () => [{ provider, model: 'test' }] },
    health: new Health(clock, 5),
    random: () => 0.5,
    // In this thread, so that a turned clock does not run ahead of it.
    tokenCounter: {
      waiting: 0,
      count: async (texts) => texts.reduce((sum, text) => sum + countText(text), 0),
      close: async () => {},
    },
  }
  const made: ChatStage = {
    till,
    clock,
    organization,
    client,
    asked: () => calls,
    cancelled: () => last?.aborted === true,
    fault: 'none',
    prepared: (maxTokens = null) => completeWhole(dependencies, caller, SERVED, asked(false, maxTokens), client.signal),
    async call(maxTokens = null) {
      const answer = await made.prepared(maxTokens)
      if (!answer.ok) return answer
      const unanswered = await answer.value.prepared.commit()
      return unanswered === null ? answer : refused(unanswered.refusal)
    },
    stream: (maxTokens = null) => completeStreamed(dependencies, caller, SERVED, asked(true, maxTokens), client.signal),
    balance: () => readBalance(house.database, organization),
    async expectClean() {
      expect(till.share(organization).heldMicrocents).toBe(0n)
      expect(till.share(organization).unpostedMicrocents).toBe(0n)
      expect([till.waitingCalls, till.writer.backlog, clock.pending]).toEqual([0, 0, 0])
      expect(await house.imbalances()).toEqual([])
    },
  }
  return made
}
