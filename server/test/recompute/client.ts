/** A client that writes down what it was told of a call: how much came, who it was, and what it cost. */

import type { CallPlan } from './plan.ts'
import { bytesOf, promptTokensOf } from './planPrompt.ts'
import type { WireUsage } from './planUsage.ts'
import { spaced } from './words.ts'

export interface Received {
  readonly kind: 'chat'
  readonly call: number
  readonly payer: string
  readonly keyId: string
  readonly model: string
  readonly tier: string
  readonly stream: boolean
  readonly maxTokens: number | null
  /** Of the prompt: bytes of its texts, tokens with those of its form, and messages. */
  readonly promptBytes: number
  readonly promptTokens: number
  readonly messages: number
  /** Of each piece of the text. */
  readonly wordBytes: number
  /** By the machine's clock. The gateway's follows the database's, to half of a round trip. */
  readonly startedMs: number
  endedMs: number
  /** Null: no answer began. */
  status: number | null
  /** The charge's id, which is the completion's; null where the client never saw it. */
  chargeId: string | null
  words: number
  /** Something came that is no word of this answer. */
  isGarbled: boolean
  /** `whole`: came to its end without an error in it. */
  end: 'whole' | 'error' | 'left' | 'broken'
  /** The client meant to leave without knowing the completion's id: `keyId` then tells which call a charge is for. */
  readonly isEarly: boolean
  finishReason: string | null
  /** As the header or comment says. */
  costMicrocents: string | null
  /** As the answer says; `cached` is null where it says nothing of it. */
  usage: (Omit<WireUsage, 'cached'> & { readonly cached: number | null }) | null
  code: string | null
}

interface Body {
  readonly id?: string
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string }
    readonly message?: { readonly content: string }
    readonly finish_reason: string | null
  }[]
  readonly usage?: {
    readonly prompt_tokens: number
    readonly completion_tokens: number
    readonly prompt_tokens_details?: { readonly cached_tokens: number }
  }
  readonly error?: { readonly code: string }
}

const COST = /^: svc-cost-microcents=(\d+)$/m

/** Makes one call. Never rejects. With `leavesEarly` it hangs up when the plan says so, without having read anything. */
export async function makeCall(
  url: string,
  key: { readonly id: string; readonly key: string },
  plan: CallPlan,
  leavesEarly: boolean,
): Promise<Received> {
  const received: Received = {
    kind: 'chat',
    call: plan.number,
    payer: plan.payer,
    keyId: key.id,
    model: `svc/m${plan.model}`,
    tier: plan.isEconomy ? 'economy' : 'serverless',
    stream: plan.stream,
    maxTokens: plan.maxTokens,
    promptBytes: bytesOf(plan.messages),
    promptTokens: promptTokensOf(plan.messages),
    messages: plan.messages.length,
    wordBytes: spaced(plan.word).length,
    startedMs: Date.now(),
    endedMs: 0,
    status: null,
    chargeId: null,
    words: 0,
    isGarbled: false,
    end: 'broken',
    isEarly: leavesEarly,
    finishReason: null,
    costMicrocents: null,
    usage: null,
    code: null,
  }
  const leaving = new AbortController()
  if (leavesEarly && plan.hangUp?.kind === 'early') setTimeout(() => leaving.abort(), plan.hangUp.afterMs)
  try {
    const response = await fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key.key}`, 'Content-Type': 'application/json' },
      body: bodyOf(plan),
      signal: leaving.signal,
    })
    if (leavesEarly) await new Promise((resolve) => leaving.signal.addEventListener('abort', resolve, { once: true }))
    received.status = response.status
    if (response.headers.get('Content-Type')?.startsWith('text/event-stream')) {
      await readStream(response, received, plan, leaving)
    } else {
      takeWhole(received, plan, response.headers.get('Svc-Cost-Microcents'), (await response.json()) as Body)
    }
  } catch {
    if (leaving.signal.aborted) received.end = 'left'
  }
  received.endedMs = Date.now()
  return received
}

function bodyOf({ model, isEconomy, messages, stream, includeUsage, maxTokens }: CallPlan): string {
  return JSON.stringify({
    model: `svc/m${model}${isEconomy ? ':economy' : ''}`,
    messages,
    ...(stream ? { stream } : {}),
    ...(includeUsage === null ? {} : { stream_options: { include_usage: includeUsage } }),
    ...(maxTokens === null ? {} : { max_tokens: maxTokens }),
  })
}

function takeWhole(received: Received, plan: CallPlan, cost: string | null, body: Body): void {
  take(received, plan, body)
  received.costMicrocents = cost
  takeText(received, plan, body.choices?.[0]?.message?.content)
  received.end = body.error === undefined && received.finishReason !== null ? 'whole' : 'error'
}

function take(received: Received, plan: CallPlan, body: Body): void {
  received.chargeId ??= body.id?.replace('chatcmpl-', '') ?? null
  takeText(received, plan, body.choices?.[0]?.delta?.content)
  received.finishReason = body.choices?.[0]?.finish_reason ?? received.finishReason
  if ((body.choices?.length ?? 1) !== 1) received.isGarbled = true
  if (body.error !== undefined) received.code = body.error.code
  if (body.usage === undefined) return
  const { prompt_tokens: prompt, completion_tokens: completion, prompt_tokens_details: details } = body.usage
  received.usage = { prompt, completion, cached: details?.cached_tokens ?? null }
}

/** Words are all alike, each with a space before it. */
function takeText(received: Received, plan: CallPlan, text = ''): void {
  const words = Math.floor(text.length / received.wordBytes)
  received.words += words
  if (text !== spaced(plan.word).repeat(words)) received.isGarbled = true
}

async function readStream(
  response: Response,
  received: Received,
  plan: CallPlan,
  leaving: AbortController,
): Promise<void> {
  const { hangUp } = plan
  const decoder = new TextDecoder()
  let text = ''
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes, { stream: true })
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const event = text.slice(0, end)
      text = text.slice(end + 2)
      received.costMicrocents = COST.exec(event)?.[1] ?? received.costMicrocents
      if (event === 'data: [DONE]') {
        received.end = received.code !== null ? 'error' : received.finishReason === null ? 'broken' : 'whole'
      } else if (event.startsWith('data: ')) take(received, plan, JSON.parse(event.slice(6)) as Body)
    }
    const isEnough =
      (hangUp?.kind === 'words' && received.words >= hangUp.after) ||
      (hangUp?.kind === 'end' && received.finishReason !== null)
    if (isEnough && received.end === 'broken') {
      leaving.abort()
      received.end = 'left'
      return
    }
  }
}
