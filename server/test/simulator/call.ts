import type { WorstCase } from '../../src/billing/admission/gates.ts'
import type { ResolvedModel } from '../../src/catalog/model.ts'
import { rateAt } from '../../src/catalog/price.ts'
import { completeStreamed, completeWhole } from '../../src/inference/chat/complete.ts'
import type { ChatDependencies } from '../../src/inference/chat/dependencies.ts'
import type { End, StreamedReply, WholeReply } from '../../src/inference/chat/reply.ts'
import { chatWorstCase } from '../../src/inference/chat/request.ts'
import type { TokenUsage } from '../../src/lib/tokenUsage.ts'
import type { ChatAnswer, ChatEvent, Provider } from '../../src/providers/dialect/spec.ts'
import { Health } from '../../src/routing/health.ts'
import { SILENCE } from '../silence.ts'
import type { Gateway } from './gateway.ts'
import type { Machine } from './machine.ts'
import { CATALOG, CHARACTERS_PER_TOKEN, MAX_OUTPUT_TOKENS, promptAtMost, type Script, targetsFor } from './script.ts'

/** The call that a client of the simulator makes. */
export interface Request {
  readonly organizationId: string
  /** Used once: it names the call in the books. */
  readonly keyId: string
  readonly resolved: ResolvedModel
  readonly script: Script
  readonly stream: boolean
  readonly maxTokens: number | null
}

/** A call, from the client's side and the simulator's. */
export interface Call extends Request {
  readonly machine: Machine
  /** By the clock of its gateway. */
  readonly admittedAtMs: number
  readonly startedAtMs: number
  readonly worst: WorstCase
  /** Why it must not be let in, as things stood when it came; null where nothing speaks against it. */
  readonly mustNotStart: string | null
  /** True when it was let in and its provider asked. */
  wasAdmitted: boolean
  /** When its client left, targets that had the whole request and had not failed; null: it has not left, or that is not clear. */
  atWorkWhenLeft: number | null
  /** A usage was reported for it. */
  hasReport: boolean
  /** The hold of its charge when that was taken; null: none was taken. */
  heldMicrocents: bigint | null
  /** The database did not answer in time when its hold was to be extended: it is charged what was held before. */
  wasSlow: boolean
  /** The end of the call: `whole`, a refusal's code, or that its client or its gateway was gone. Null: not yet. */
  answer: string | null
  /** Tokens of text that its gateway has taken from the provider. */
  tokensTaken: number
  /** Providers that say something. */
  answering: number
  /** Its provider says nothing more. */
  isOver: boolean
  /** Tokens of text that its client has. */
  tokensRead: number
  endedAtMs: number
  /** Of the charge, from the answer; null before there is one. */
  chargeId: string | null
  /** The usage and cost that the client was told; null where nothing was said. */
  told: { readonly usage: TokenUsage; readonly costMicrocents: bigint } | null
  hangUp(): void
}

/** With commits outstanding for longer than this nothing is admitted (`billing/README.md`). */
const STALLED_MS = 2_000

/** A counter without a tokenizer: four characters a token, as the script writes them. */
const COUNTER = {
  count: (texts: readonly string[]) =>
    Promise.resolve(texts.reduce((sum, text) => sum + Math.ceil(text.length / CHARACTERS_PER_TOKEN), 0)),
  close: async () => {},
  waiting: 0,
}

/** Nothing of it has happened yet. */
const NEW_CALL = {
  wasAdmitted: false,
  atWorkWhenLeft: null,
  hasReport: false,
  heldMicrocents: null,
  wasSlow: false,
  answer: null,
  tokensTaken: 0,
  answering: 0,
  isOver: false,
  tokensRead: 0,
  endedAtMs: 0,
  chargeId: null,
  told: null,
} as const

interface Times {
  /** The world's. */
  readonly nowMs: () => number
  /** Returns whether the gateway may go by such a time. */
  readonly isAllowed: (clockMs: number) => boolean
}

/** Sends a call to a gateway; the real code answers it. */
export function startCall(gateway: Gateway, request: Request, times: Times, onEnd: (call: Call) => void): Call {
  const { machine, money, clock } = gateway
  const client = new AbortController()
  const { resolved, script, stream, maxTokens, organizationId, keyId } = request
  const admittedAtMs = clock.now()
  const outputTokens = Math.min(maxTokens ?? MAX_OUTPUT_TOKENS, MAX_OUTPUT_TOKENS)
  const { promptCharacters } = script
  const atWork = new Set<string>()
  const failing = new Set<string>()
  const call: Call = {
    ...request,
    ...NEW_CALL,
    machine,
    admittedAtMs,
    startedAtMs: times.nowMs(),
    worst: chatWorstCase(rateAt(resolved.tier.price, admittedAtMs), promptAtMost(promptCharacters), outputTokens, 0),
    mustNotStart: whyNot(gateway, times.isAllowed(admittedAtMs)),
    hangUp: () => {
      // Where it left in the very moment of a failure, its gateway may not have heard of that.
      if (failing.size === 0 && !client.signal.aborted) call.atWorkWhenLeft = atWork.size
      client.abort(new Error('the client is gone'))
    },
  }
  const hasSpare = resolved.tier.routing.hedgeAfterMs !== null
  const targets = targetsFor(machine, script, hasSpare, {
    onAsked: () => {
      call.wasAdmitted = true
    },
    onWritten: (target) => void atWork.add(target),
    onFailed(target) {
      failing.add(target)
      setImmediate(() => {
        failing.delete(target)
        atWork.delete(target)
      })
    },
    onUsage: () => {
      call.hasReport = true
    },
  }).map((provider) => ({ provider: watched(provider, call), model: 'test' }))
  const dependencies: ChatDependencies = {
    clock,
    log: SILENCE,
    money,
    catalog: () => CATALOG,
    providers: { targetsOf: () => targets },
    health: new Health(clock, 5),
    random: () => 0.5,
    tokenCounter: COUNTER,
  }
  const body = {
    model: resolved.model.id,
    messages: [{ role: 'user' as const, content: 'x'.repeat(promptCharacters) }],
    stream,
    includeUsage: true,
    maxTokens,
    temperature: null,
  }
  const end = (answer: string) => {
    call.answer = client.signal.aborted ? `hung up (${answer})` : answer
    call.endedAtMs = times.nowMs()
    onEnd(call)
  }
  const caller = { organizationId, keyId, traceparent: null, isClientGone: () => client.signal.aborted }
  const answering = stream
    ? completeStreamed(dependencies, caller, resolved, body, client.signal).then((result) =>
        result.ok ? readStream(result.value, call, client.signal) : result.refusal.code,
      )
    : completeWhole(dependencies, caller, resolved, body, client.signal).then((result) =>
        result.ok ? readWhole(result.value, call) : result.refusal.code,
      )
  answering.then(end, (error) => end(`threw: ${error}`))
  return call
}

/** Why a call must not be let in now; null: nothing speaks against it. */
function whyNot({ slot, writer, trouble }: Gateway, isTimeAllowed: boolean): string | null {
  if (!slot.isOwned()) return 'its gateway had no slot'
  if (writer.oldestAgeMs > STALLED_MS) return 'commits were outstanding for more than 2 s'
  if (trouble() !== null) return 'the time of its gateway was in doubt'
  return isTimeAllowed ? null : 'its gateway counts a time that the database did not keep for a minute'
}

/** The same provider; what is taken of its answer is noted. Of two that are asked, one may go on when the other is over. */
function watched(provider: Provider, call: Call): Provider {
  return {
    ...provider,
    async chat(...asked) {
      call.isOver = false
      const answer = await provider.chat(...asked)
      return { [Symbol.asyncIterator]: () => eventsOf(answer, call) }
    },
  }
}

async function* eventsOf(answer: ChatAnswer, call: Call): AsyncGenerator<ChatEvent, void> {
  call.answering += 1
  try {
    for await (const event of answer) {
      if (event.kind === 'text') call.tokensTaken += event.text.length / CHARACTERS_PER_TOKEN
      yield event
    }
  } finally {
    call.answering -= 1
    call.isOver = call.answering === 0
  }
}

/** Charges an answer as the door does, and reads it as a client does. */
async function readWhole(reply: WholeReply, call: Call): Promise<string> {
  call.chargeId = chargeIdOf(reply.id)
  const answer = await commit(reply, call)
  if (answer === 'whole') call.tokensRead = reply.text.length / CHARACTERS_PER_TOKEN
  return answer
}

/** The same of a stream, to its end. The door commits nothing for a client that is gone. */
async function readStream(reply: StreamedReply, call: Call, signal: AbortSignal): Promise<string> {
  call.chargeId = chargeIdOf(reply.id)
  let answer = 'no end'
  for await (const part of reply.parts) {
    if (part.kind === 'text') call.tokensRead += part.text.length / CHARACTERS_PER_TOKEN
    else if (part.kind === 'error') answer = part.refusal.code
    else if (!signal.aborted) answer = await commit(part, call)
  }
  return answer
}

/** Charges an answer; its client is told what it cost only once that is durable. */
async function commit({ usage, prepared }: End, call: Call): Promise<string> {
  const unanswered = await prepared.commit()
  if (unanswered !== null) return unanswered.refusal.code
  call.told = { usage, costMicrocents: prepared.costMicrocents }
  return 'whole'
}

/** The answer's id is the charge's, without its dashes. */
function chargeIdOf(answerId: string): string {
  const hex = answerId.replace('chatcmpl-', '')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
