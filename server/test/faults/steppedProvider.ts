/** A provider of the dialect `openai` whose answers a test plays out step by step. */

import type { Socket } from 'node:net'
import { END_OF_BODY, head, piece, rawServer } from '../rawServer.ts'

export interface SteppedCall {
  /** Sends the headers of the answer; the other steps do it by themselves. */
  begins(): void
  /** One chunk of text, with more members of the chunk where given, such as `usage`. */
  says(text: string, more?: object): void
  /** One chunk of reasoning. */
  thinks(text: string): void
  /** The finish reason, the usage and `[DONE]`: the whole rest of an answer. */
  ends(usage: { prompt: number; completion: number; cached?: number }): void
  /** Resolves when the gateway has closed the connection. */
  readonly cancelled: Promise<void>
  readonly socket: Socket
}

export interface SteppedProvider {
  /** Ends in /v1. */
  readonly url: string
  /** How many calls have come so far. */
  readonly count: number
  /** The next call that has not been taken yet. */
  next(): Promise<SteppedCall>
  stop(): void
}

export async function startSteppedProvider(): Promise<SteppedProvider> {
  const calls: SteppedCall[] = []
  let taken = 0
  const server = await rawServer((socket) => {
    calls.push(stepped(socket))
  })
  return {
    url: `${server.url}/v1`,
    get count() {
      return calls.length
    },
    async next() {
      const index = taken
      taken += 1
      await server.requested(index + 1)
      const call = calls[index]
      if (call === undefined) throw new Error('a request came that was not answered')
      return call
    },
    stop: () => server.stop(),
  }
}

function stepped(socket: Socket): SteppedCall {
  // A connection that is kept serves any number of calls, each of which may want to know of its end.
  socket.setMaxListeners(0)
  let begun = false
  const begins = () => {
    if (!begun) socket.write(head())
    begun = true
  }
  const sends = (text: string) => {
    begins()
    socket.write(piece(text))
  }
  const chunk = (delta: object, finish: 'stop' | null, more: object = {}) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`
  return {
    begins,
    says: (text, more) => sends(chunk({ content: text }, null, more)),
    thinks: (text) => sends(chunk({ reasoning_content: text }, null)),
    ends({ prompt, completion, cached }) {
      sends(`${chunk({}, 'stop', { usage: toUsage(prompt, completion, cached) })}data: [DONE]\n\n`)
      socket.write(END_OF_BODY)
    },
    cancelled: new Promise((resolve) => socket.once('close', () => resolve())),
    socket,
  }
}

/** Usage as it stands in a chunk. */
export function toUsage(prompt: number, completion: number, cached?: number): object {
  const details = cached === undefined ? {} : { prompt_tokens_details: { cached_tokens: cached } }
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion, ...details }
}
