/**
 * A provider of the dialect `openai` that does what each call's message says, and counts what it was asked and what it
 * gave. Its usage is cumulative, in every chunk. It reports the call's number as prompt tokens, so that every charge
 * names its call. It makes embeddings and images too, in one piece, more than 256 KiB of it where more
 * than 30 tokens are asked for.
 */

import { drawText } from '../../src/providers/sandbox/picture.ts'

/** Its chat models: one that answers, one that breaks off before the end, and two that never generate a token. */
export const PROVIDER_MODELS = ['answers', 'breaks', 'refuses', 'silent'] as const
export type ProviderModel = (typeof PROVIDER_MODELS)[number]

export interface Served {
  readonly model: ProviderModel
  /** Tokens handed to the connection so far. */
  tokens: number
  /** The gateway has ended the call before its end. */
  cancelled: boolean
}

export interface CountingProvider {
  /** Ends in /v1. */
  readonly url: string
  /** By the call's number; twice in there is a call that was sent twice. */
  readonly served: ReadonlyMap<number, readonly Served[]>
  /** Forgets what it was asked, for another run. */
  forget(): void
  stop(): Promise<void>
}

/** Returns the text of a call to it. */
export function askFor(number: number, tokens: number): string {
  return longEnough(number, `call ${number} tokens ${tokens}`)
}

/**
 * The least number of a call that is checked by its usage: a report of fewer prompt tokens would not be believed of such a
 * text (C4), and one of more than the text has bytes is cut (C10).
 */
export const FIRST_NUMBER = 101

/** Pads a text, so that `number` tokens can be believed of it. */
export function longEnough(number: number, text: string): string {
  return text.padEnd(number)
}

export function startCountingProvider(): CountingProvider {
  const served = new Map<number, Served[]>()
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const body = (await request.json()) as Body
      const asked = /^call (\d+) tokens (\d+) *$/.exec(wordsOf(body))
      const number = Number(asked?.[1])
      const record: Served = { model: body.model, tokens: 0, cancelled: false }
      served.set(number, [...(served.get(number) ?? []), record])
      if (body.model === 'refuses') return Response.json({ error: { message: 'no' } }, { status: 500 })
      if (body.model === 'silent') return silence(request, record)
      if (body.messages === undefined) return whole(body, Number(asked?.[2]), record)
      return new Response(chunks(number, Number(asked?.[2]), record), {
        headers: { 'Content-Type': 'text/event-stream' },
      })
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}/v1`,
    served,
    forget: () => served.clear(),
    stop: () => server.stop(true),
  }
}

interface Body {
  readonly model: ProviderModel
  readonly messages?: readonly { readonly content: string }[]
  readonly input?: readonly string[]
  readonly prompt?: string
}

function wordsOf({ messages, input, prompt }: Body): string {
  return messages?.at(-1)?.content ?? input?.[0] ?? prompt ?? ''
}

/** Half a turn of the event loop for each token, and then all at once. */
async function whole({ input }: Body, wanted: number, record: Served): Promise<Response> {
  while (record.tokens < wanted) {
    if (record.tokens % 2 === 0) await new Promise((resolve) => setImmediate(resolve))
    record.tokens += 1
  }
  const isLarge = wanted > LARGE_ABOVE_TOKENS
  if (input !== undefined) {
    const embedding = Array.from({ length: isLarge ? 60_000 : 8 }, (_, index) => Math.fround(index / 7))
    return Response.json({ data: [{ index: 0, embedding }], usage: { prompt_tokens: EMBEDDED_TOKENS } })
  }
  const picture = await drawText(['x'], { width: 64, height: 64 }, 1)
  const image = isLarge ? Buffer.concat([picture, crypto.getRandomValues(new Uint8Array(300_000))]) : picture
  return Response.json({ created: 1, data: [{ b64_json: image.toString('base64') }] })
}

const LARGE_ABOVE_TOKENS = 30

/** Of each text to embed: its four words, and a mark before and after them. */
export const EMBEDDED_TOKENS = 6

/** Sends nothing until the gateway gives up. */
function silence(request: Request, record: Served): Promise<Response> {
  return new Promise((resolve) => {
    const leave = () => {
      record.cancelled = true
      resolve(new Response(null, { status: 503 }))
    }
    if (request.signal.aborted) leave()
    else request.signal.addEventListener('abort', leave)
  })
}

function chunks(number: number, wanted: number, record: Served): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  const breaksAt = record.model === 'breaks' ? Math.ceil(wanted / 2) : null
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      // A turn of the event loop for every token, so that the answers of many calls are under way at once.
      await new Promise((resolve) => setImmediate(resolve))
      if (record.cancelled) return
      // A body that ends without a finish reason or [DONE] is a broken answer.
      if (record.tokens === breaksAt) return controller.close()
      if (record.tokens < wanted) {
        record.tokens += 1
        controller.enqueue(encoder.encode(chunk(number, record.tokens, { content: ` token${record.tokens}` }, null)))
        return
      }
      controller.enqueue(encoder.encode(`${chunk(number, wanted, {}, 'stop')}data: [DONE]\n\n`))
      controller.close()
    },
    cancel() {
      record.cancelled = true
    },
  })
}

function chunk(number: number, tokens: number, delta: { content?: string }, finish: 'stop' | null): string {
  const usage = { prompt_tokens: number, completion_tokens: tokens, total_tokens: number + tokens }
  return `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }], usage })}\n\n`
}
