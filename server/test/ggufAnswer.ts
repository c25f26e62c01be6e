/** Talks to a GGUF engine's child directly, as the `openai` dialect would, and reads its answers chunk by chunk. */
import { createParser } from 'eventsource-parser'
import type { Log } from '../src/lib/log.ts'
import type { EngineStats } from '../src/providers/gguf/serve.ts'
import type { GgufAddress } from '../src/providers/gguf/supervise.ts'

export const QUIET: Log = { debug() {}, info() {}, warn() {}, error() {} }

export interface Chunk {
  readonly choices?: readonly {
    readonly delta: { role?: string; content?: string }
    readonly finish_reason: string | null
  }[]
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number; readonly total_tokens: number }
}

/** Sends a chat request for the word `hi`, with what is given on top. */
export function ask({ baseUrl, bearer }: GgufAddress, more: object = {}, signal?: AbortSignal): Promise<Response> {
  return fetch(`${baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${bearer}` },
    body: JSON.stringify({
      model: 'tiny',
      messages: [{ role: 'user', content: 'hi' }],
      stream: true,
      stream_options: { include_usage: true },
      ...more,
    }),
    ...(signal === undefined ? {} : { signal }),
  })
}

/** A stream that is read as far as a test wants. */
export interface OpenAnswer {
  /** The next chunk; null at the end, whether or not `[DONE]` came. */
  next(): Promise<Chunk | null>
  readonly isDone: boolean
}

/** Reads a streamed answer chunk by chunk. */
export function openAnswer(response: Response): OpenAnswer {
  const chunks: Chunk[] = []
  let isDone = false
  const parser = createParser({
    onEvent: ({ data }) => {
      if (data === '[DONE]') isDone = true
      else chunks.push(JSON.parse(data) as Chunk)
    },
  })
  const reader = response.body?.getReader()
  const decoder = new TextDecoder()
  return {
    async next() {
      while (chunks.length === 0) {
        const read = await reader?.read()
        if (read === undefined || read.done) return null
        parser.feed(decoder.decode(read.value, { stream: true }))
      }
      return chunks.shift() ?? null
    },
    get isDone() {
      return isDone
    },
  }
}

/** The whole answer. Throws where it breaks off. */
export async function readAnswer(response: Response): Promise<{ chunks: Chunk[]; text: string; isDone: boolean }> {
  const answer = openAnswer(response)
  const chunks: Chunk[] = []
  for (let chunk = await answer.next(); chunk !== null; chunk = await answer.next()) chunks.push(chunk)
  const text = chunks.map((chunk) => chunk.choices?.[0]?.delta.content ?? '').join('')
  return { chunks, text, isDone: answer.isDone }
}

/** Returns the engine's counts of its calls. */
export async function statsOf({ baseUrl, bearer }: GgufAddress): Promise<EngineStats> {
  const url = new URL('/stats', baseUrl)
  return (await (await fetch(url, { headers: { authorization: `Bearer ${bearer}` } })).json()) as EngineStats
}

/** Asks again and again until `isSo`; throws after `tries`, each a round trip. */
export async function untilStats(
  address: GgufAddress,
  isSo: (stats: EngineStats) => boolean,
  tries = 2_000,
): Promise<EngineStats> {
  for (let left = tries; left > 0; left -= 1) {
    const stats = await statsOf(address)
    if (isSo(stats)) return stats
  }
  throw new Error(`the engine did not come to it: ${JSON.stringify(await statsOf(address))}`)
}
