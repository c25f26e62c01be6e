/** Streamed calls of the dialect to a server that closes connections as llama.cpp's does. */

import { afterEach, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { seeded } from '../../../test/faults/seeded.ts'
import { type Break, type LlamaServer, llamaAnswer, startLlamaServer } from '../../../test/llamaServer.ts'
import { createHttp } from '../../infra/httpClient/client.ts'
import type { ChatEvent, Provider } from '../dialect/spec.ts'
import { openaiProvider } from './openai.ts'

const CALLS = 3_000
/** The clock is turned while connections are made: none of them is late by it. */
const CONNECT_MS = 3_600_000

let server: LlamaServer | null = null
afterEach(() => server?.stop())

async function ask(provider: Provider, words: string, maxTokens: number): Promise<ChatEvent[]> {
  const messages = [{ role: 'user' as const, content: words }]
  const call = { model: 'm', messages, maxTokens, outputTokens: maxTokens, temperature: null }
  const events: ChatEvent[] = []
  for await (const event of await provider.chat(call, new AbortController().signal, CONNECT_MS)) events.push(event)
  return events
}

test.each([
  ['one after the other', 1, true],
  ['24 at once', 24, true],
  ['one after the other, where streams leave connections open', 1, false],
  ['24 at once, where streams leave connections open', 24, false],
])('thousands of calls, %s: each gets its answer with its usage', async (_name, atOnce, closesAfterStream) => {
  const clock = new TurnedClock()
  const random = seeded(3)
  const breaks = () => (random.percent(5) ? random.pick<Break>(['reset', 'end']) : null)
  server = await startLlamaServer({ clock, closesAfterStream, breaks })
  const { url } = server
  const provider = openaiProvider({ name: 'u', address: () => url, bearer: () => null, http: createHttp(clock), clock })
  let number = 0
  const callUntil = async (end: number) => {
    while (number < end) {
      number += 1
      const [words, maxTokens] = [`call ${number}`, 1 + (number % 9)]
      expect(await ask(provider, words, maxTokens)).toEqual([
        { kind: 'text', text: llamaAnswer(words) },
        { kind: 'finish', reason: 'length' },
        {
          kind: 'usage',
          usage: { promptTokens: words.length, cachedPromptTokens: 0, completionTokens: maxTokens },
        },
      ])
    }
  }
  while (number < CALLS) {
    const end = Math.min(number + random.between(1, 100), CALLS)
    await Promise.all(Array.from({ length: atOnce }, () => callUntil(end)))
    await clock.turn(random.between(0, 6_000))
  }
  if (!closesAfterStream) expect(server.brokenCount).toBeGreaterThan(CALLS / 100)
})
