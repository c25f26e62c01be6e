/** A client of embeddings and images that writes down what it was told. */

import type { Received } from './client.ts'
import type { EmbeddingPlan, WholePlan } from './planWhole.ts'
import { HEAD_CHARACTERS, vectorOf } from './providerWhole.ts'
import { wordsIn } from './words.ts'

/** Answers do not say whose charge is theirs: each such call has a key of its own while it lasts. */
export interface ReceivedWhole
  extends Pick<
    Received,
    | 'call'
    | 'payer'
    | 'keyId'
    | 'model'
    | 'tier'
    | 'startedMs'
    | 'endedMs'
    | 'status'
    | 'end'
    | 'costMicrocents'
    | 'code'
  > {
  readonly kind: 'embedding' | 'image'
  readonly chargeId: null
  readonly isEarly: true
  /** Of embeddings: what was sent. */
  readonly textBytes: readonly number[]
  readonly textWords: readonly number[]
  /** As the answer says. */
  promptTokens: number | null
  /** Each text's vector is its own. */
  vectorsAreRight: boolean | null
  /** Of images: what was asked for; null where it was left out. */
  readonly count: number | null
  readonly size: string | null
  /** The head of each image of the answer. */
  images: readonly string[] | null
  imageCount: number | null
}

interface Body {
  readonly data?: readonly {
    readonly embedding?: readonly number[]
    readonly b64_json?: string
    readonly index?: number
  }[]
  readonly usage?: { readonly prompt_tokens?: number; readonly total_tokens?: number; readonly image_count?: number }
  readonly error?: { readonly code: string }
}

/** Makes one call. Never rejects. */
export async function makeWholeCall(
  url: string,
  key: { readonly id: string; readonly key: string },
  plan: WholePlan,
): Promise<ReceivedWhole> {
  const { texts, path, body } = requestOf(plan)
  const received: ReceivedWhole = {
    kind: plan.kind,
    call: plan.number,
    payer: plan.payer,
    keyId: key.id,
    model: modelOf(plan),
    tier: 'serverless',
    startedMs: Date.now(),
    endedMs: 0,
    status: null,
    chargeId: null,
    end: 'broken',
    isEarly: true,
    costMicrocents: null,
    code: null,
    textBytes: texts.map((text) => text.length),
    textWords: texts.map(wordsIn),
    promptTokens: null,
    vectorsAreRight: null,
    count: plan.kind === 'image' ? plan.count : null,
    size: plan.kind === 'image' ? plan.size : null,
    images: null,
    imageCount: null,
  }
  const leaving = new AbortController()
  if (plan.leavesAfterMs !== null) setTimeout(() => leaving.abort(), plan.leavesAfterMs)
  try {
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key.key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
      signal: leaving.signal,
    })
    received.status = response.status
    const answer = (await response.json()) as Body
    received.costMicrocents = response.headers.get('Svc-Cost-Microcents')
    received.code = answer.error?.code ?? null
    received.end = answer.error === undefined ? 'whole' : 'error'
    if (answer.error === undefined) take(received, plan, answer)
  } catch {
    if (leaving.signal.aborted) received.end = 'left'
  }
  received.endedMs = Date.now()
  return received
}

function modelOf({ kind, model }: WholePlan): string {
  return `svc/${kind === 'embedding' ? 'e' : 'i'}${model}`
}

function requestOf(plan: WholePlan): { texts: readonly string[]; path: string; body: object } {
  const model = modelOf(plan)
  if (plan.kind === 'embedding') {
    const { texts } = plan
    const input = texts.length === 1 ? texts[0] : texts
    return { texts, path: '/embeddings', body: { model, input, encoding_format: 'float' } }
  }
  const { prompt, count, size } = plan
  const body = { model, prompt, ...(count === null ? {} : { n: count }), ...(size === null ? {} : { size }) }
  return { texts: [], path: '/images/generations', body }
}

function take(received: ReceivedWhole, plan: WholePlan, { data = [], usage }: Body): void {
  if (plan.kind === 'embedding') {
    received.promptTokens = usage?.prompt_tokens ?? null
    received.vectorsAreRight = areRight(plan, data)
    return
  }
  received.images = data.map(({ b64_json: image }) => image?.slice(0, HEAD_CHARACTERS) ?? '')
  received.imageCount = usage?.image_count ?? null
}

function areRight({ number, texts, dimensions }: EmbeddingPlan, data: NonNullable<Body['data']>): boolean {
  const isRight = ({ embedding, index }: (typeof data)[number], at: number) =>
    index === at && JSON.stringify(embedding) === JSON.stringify(vectorOf(number, at, dimensions))
  return data.length === texts.length && data.every(isRight)
}
