/** A provider that is asked for its usage in every chunk: whoever leaves before the end pays what the model counted (C4). */

import { expect, setDefaultTimeout, test } from 'bun:test'
import { openPortWith } from '../openPort.ts'
import { head, piece, rawServer } from '../rawServer.ts'
import { until } from '../until.ts'
import { toUsage } from './steppedProvider.ts'

setDefaultTimeout(60_000)

/** Each digit is a token of its own, as the tokenizers of many models make them; the tokenizer here makes a third. */
const DIGITS = 1_000

test('a client that has all digits and leaves before the usage pays for each', async () => {
  const provider = await rawServer((socket, index) => {
    const isAsked = provider.requests[index]?.includes('"continuous_usage_stats":true') === true
    socket.write(head())
    for (let digit = 1; digit <= DIGITS; digit += 1) {
      const choices = [{ index: 0, delta: { content: String(digit % 10) }, finish_reason: null }]
      const usage = isAsked ? { usage: toUsage(7, digit) } : {}
      socket.write(piece(`data: ${JSON.stringify({ choices, ...usage })}\n\n`))
    }
  })
  const model = (name: string) => `
  - id: svc/${name}
    context_length: 100000
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 100 }
    targets: [{ provider: ${name}, model: any }]`
  const port = await openPortWith(`
providers:
  asked: { dialect: openai, base_url: "${provider.url}/v1", continuous_usage: true }
  unasked: { dialect: openai, base_url: "${provider.url}/v1" }
models: ${model('asked')} ${model('unasked')}
`)
  const charges: unknown[] = []
  for (const name of ['asked', 'unasked']) {
    const key = await port.gateway.customer({ cents: 1_000 })
    const leaving = new AbortController()
    const response = await port.send(
      key,
      '/chat/completions',
      { model: `svc/${name}`, stream: true, messages: [{ role: 'user', content: 'Count' }] },
      leaving.signal,
    )
    const reader = response.body?.getReader()
    const decoder = new TextDecoder()
    const digitsOf = (seen: string) => [...seen.matchAll(/"content":"(\d+)"/g)].map(([, digits]) => digits).join('')
    for (let seen = ''; digitsOf(seen).length < DIGITS; ) {
      seen += decoder.decode((await reader?.read())?.value, { stream: true })
    }
    leaving.abort()
    await until(async () => (await port.charges(key)).length > 0)
    charges.push(...(await port.charges(key)))
  }
  expect(charges).toEqual([
    { outcome: 'cancelled', estimated: false, promptTokens: 7, completionTokens: DIGITS },
    expect.objectContaining({ outcome: 'cancelled', estimated: true }),
  ])
  await port.close()
  provider.stop()
})
