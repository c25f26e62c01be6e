/** A client that hangs up on a model that reasons unseen: only the report at the end says how much there is to pay. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { findImbalances } from '../../src/billing/charges/store.ts'
import { type OpenPort, openPortWith } from '../openPort.ts'
import { type SteppedProvider, startSteppedProvider } from './steppedProvider.ts'

/** Nothing here waits for a clock; a machine that is busy with other things may still be slow. */
setDefaultTimeout(60_000)

let provider: SteppedProvider
let port: OpenPort
beforeAll(async () => {
  provider = await startSteppedProvider()
  port = await openPortWith(`
open_requests_per_key: 1
providers:
  stepped: { dialect: openai, base_url: "${provider.url}" }
models:
  - id: svc/stepped
    context_length: 100000
    hidden_reasoning_tokens: 30000
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 100 }
    targets: [{ provider: stepped, model: stepped }]
`)
})
afterAll(async () => {
  provider.stop()
  await port.close()
})

let hangUps = 0

test.each([true, false])(
  'pays for all that it has reasoned, and keeps its place until then (stream: %p)',
  async (stream) => {
    const key = await port.gateway.customer({ cents: 1_000 })
    const leaving = new AbortController()
    const response = port.chat(key, { stream }, leaving.signal)
    response.catch(() => {})
    const asked = await provider.next()
    asked.says('the answer')
    // A stream has begun by then.
    if (stream) await response
    hangUps += 1
    leaving.abort()
    await port.hungUp(hangUps)
    expect((await port.chat(key, {})).status).toBe(429)
    asked.says(' and more')
    asked.ends({ prompt: 5, completion: 20_000 })
    await port.idle()
    expect(await port.charges(key)).toEqual([
      { outcome: 'completed', estimated: false, promptTokens: 5, completionTokens: 20_000 },
    ])
    expect(await findImbalances(port.gateway.database)).toEqual([])
  },
)
