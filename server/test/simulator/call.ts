import type { Served } from '../../src/catalog/model.ts'
import { rateAt } from '../../src/catalog/price.ts'
import { complete } from '../../src/chat/complete.ts'
import type { ChatDependencies } from '../../src/chat/dependencies.ts'
import type { ChatReply } from '../../src/chat/reply.ts'
import { worstCase } from '../../src/chat/request.ts'
import type { Worst } from '../../src/money/gates.ts'
import { Health } from '../../src/routing/health.ts'
import type { TokenUsage } from '../../src/upstream/spec.ts'
import { SILENCE } from '../silence.ts'
import type { Gateway } from './gateway.ts'
import type { Machine } from './machine.ts'
import {
  CATALOG,
  CHARACTERS_PER_TOKEN,
  MAX_OUTPUT_TOKENS,
  PROMPT_TOKENS_AT_MOST,
  playScript,
  type Script,
} from './script.ts'

/** What a client of the simulator asks for. */
export interface Request {
  readonly organizationId: string
  /** Used once: it names the call in the books. */
  readonly keyId: string
  readonly served: Served
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
  readonly worst: Worst
  /** Why it must not be let in, as things stood when it came; null where nothing speaks against it. */
  readonly mustNotStart: string | null
  /** Whether it was let in and its upstream asked. */
  wasAdmitted: boolean
  /** What it ended with: `whole`, a refusal's code, or that its client or its gateway was gone. Null: not yet. */
  answer: string | null
  /** Tokens of text that its client has. */
  tokensRead: number
  endedAtMs: number
  /** Of the charge, from the answer; null before there is one. */
  chargeId: string | null
  /** What the client was told that it cost; null where nothing was said. */
  told: { readonly usage: TokenUsage; readonly costMicrocents: bigint } | null
  hangUp(): void
}

/** With commits outstanding for longer than this nothing is admitted (`money/README.md`). */
const STALLED_MS = 2_000

/** A counter without a tokenizer: four characters a token, as the script writes them. */
const COUNTER = {
  count: (texts: readonly string[]) =>
    Promise.resolve(texts.reduce((sum, text) => sum + Math.ceil(text.length / CHARACTERS_PER_TOKEN), 0)),
  close: async () => {},
  waiting: 0,
}

/** Sends a call to a gateway; the real code answers it. */
export function startCall(gateway: Gateway, request: Request, nowMs: () => number, onEnd: (call: Call) => void): Call {
  const { machine, money } = gateway
  const client = new AbortController()
  const { served, script, stream, maxTokens, organizationId, keyId } = request
  const admittedAtMs = machine.clock.now()
  const outputTokens = Math.min(maxTokens ?? MAX_OUTPUT_TOKENS, MAX_OUTPUT_TOKENS)
  const call: Call = {
    ...request,
    machine,
    admittedAtMs,
    startedAtMs: nowMs(),
    worst: worstCase(rateAt(served.tier.price, admittedAtMs), PROMPT_TOKENS_AT_MOST, outputTokens, 0),
    mustNotStart: gateway.slot.isOwned()
      ? gateway.writer.oldestAgeMs > STALLED_MS
        ? 'commits were outstanding for more than 2 s'
        : null
      : 'its gateway had no slot',
    wasAdmitted: false,
    answer: null,
    tokensRead: 0,
    endedAtMs: 0,
    chargeId: null,
    told: null,
    hangUp: () => client.abort(new Error('the client is gone')),
  }
  const onAsked = () => {
    call.wasAdmitted = true
  }
  const dependencies: ChatDependencies = {
    clock: machine.clock,
    log: SILENCE,
    money,
    catalog: () => CATALOG,
    targets: () => [{ upstream: playScript(machine, script, onAsked), model: 'test' }],
    health: new Health(machine.clock, 5),
    random: () => 0.5,
    tokenCounter: COUNTER,
  }
  const body = {
    model: served.model.id,
    messages: [{ role: 'user' as const, content: 'hi' }],
    stream,
    includeUsage: true,
    maxTokens,
    temperature: null,
  }
  const end = (answer: string) => {
    call.answer = client.signal.aborted ? `hung up (${answer})` : answer
    call.endedAtMs = nowMs()
    onEnd(call)
  }
  complete(dependencies, { organizationId, keyId, traceparent: null }, served, body, client.signal).then(
    (result) =>
      result.ok ? read(result.value, call).then(end, (error) => end(`threw: ${error}`)) : end(result.refusal.code),
    (error) => end(`threw: ${error}`),
  )
  return call
}

/** Reads an answer as a client does, to its end. */
async function read(reply: ChatReply, call: Call): Promise<string> {
  call.chargeId = chargeIdOf(reply.id)
  if (reply.kind === 'whole') {
    call.tokensRead = reply.text.length / CHARACTERS_PER_TOKEN
    call.told = reply
    return 'whole'
  }
  let answer = 'no end'
  for await (const part of reply.parts) {
    if (part.kind === 'text') call.tokensRead += part.text.length / CHARACTERS_PER_TOKEN
    else if (part.kind === 'end') {
      call.told = part
      answer = 'whole'
    } else answer = part.refusal.code
  }
  return answer
}

/** The answer's id is the charge's, without its dashes. */
function chargeIdOf(answerId: string): string {
  const hex = answerId.replace('chatcmpl-', '')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
