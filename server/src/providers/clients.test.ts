import { expect, test } from 'bun:test'
import { END_OF_BODY, head, piece, rawServer } from '../../test/rawServer.ts'
import { settingsLoader } from '../../test/settingsLoader.ts'
import { SILENCE } from '../../test/silence.ts'
import { startLiveCatalog } from '../catalog/watch.ts'
import { systemClock } from '../infra/clock.ts'
import { openProviders } from './open.ts'

const { settingsOf } = settingsLoader({})
const CALL = {
  messages: [{ role: 'user' as const, content: 'Hi' }],
  maxTokens: null,
  outputTokens: 100,
  temperature: null,
}
const ANSWER = 'data: {"choices":[{"delta":{"content":"Hello"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

test("a provider's setting that changes is in effect with the next call", async () => {
  const server = await rawServer((socket) => {
    for (const part of [head(), piece(ANSWER), END_OF_BODY]) socket.write(part)
  })
  const settings = (more: string) =>
    settingsOf(`
providers:
  vllm: { dialect: openai, base_url: "${server.url}/v1"${more} }
models:
  - id: svc/m
    context_length: 100
    pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }
    targets: [{ provider: vllm, model: m }]
`)
  let now = settings('')
  const live = await startLiveCatalog({
    clock: systemClock,
    log: SILENCE,
    settings: now,
    discovered: [],
    stamp: 'one',
    source: {
      fileName: 'tollgate.yaml',
      stamp: async () => 'one',
      load: () => Promise.reject(new Error('only a start reads it in one go')),
      reload: async () => ({ ok: true, settings: now }),
    },
    beforeActivate: async () => {},
    afterActivate: (catalog) => providers.keep(catalog),
  })
  const providers = openProviders({
    clock: systemClock,
    log: SILENCE,
    catalog: () => live.current(),
    wrap: (client) => client,
    environment: {},
  })
  const ask = async () => {
    const target = live.current().models.flatMap(({ serverless }) => providers.targetsOf(serverless))[0]
    const answer = await target?.provider.chat({ ...CALL, model: target.model }, new AbortController().signal, 5_000)
    for await (const _event of answer ?? []);
    const request = server.requests.at(-1) ?? ''
    return JSON.parse(request.slice(request.indexOf('\r\n\r\n'))).stream_options
  }
  const seen = [await ask()]
  for (const more of [', continuous_usage: true', '']) {
    now = settings(more)
    expect(await live.reload()).toBe(true)
    seen.push(await ask())
  }
  live.close()
  await providers.close()
  server.stop()
  expect(seen).toEqual([
    { include_usage: true },
    { include_usage: true, continuous_usage_stats: true },
    { include_usage: true },
  ])
})
