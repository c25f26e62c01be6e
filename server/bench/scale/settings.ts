import { FILLED_MODELS, FILLED_PRICE } from './books.ts'

/** The text of a settings file: the filled models, so many more beside them, and no limit of calls that a bench would meet. */
export function settingsOf(mockPort: number, moreModels: number): string {
  const pricing = {
    input_per_1m_tokens_microcents: Number(FILLED_PRICE.inputMicrocents),
    output_per_1m_tokens_microcents: Number(FILLED_PRICE.outputMicrocents),
  }
  const more = Array.from({ length: moreModels }, (_, index) => `more-${index + 1}`)
  return JSON.stringify({
    providers: { mock: { dialect: 'openai', base_url: `http://127.0.0.1:${mockPort}/v1` } },
    models: [...FILLED_MODELS, ...more].map((model) => ({
      id: `svc/${model}`,
      context_length: 131_072,
      max_output_tokens: 16_384,
      pricing,
      targets: [{ provider: 'mock', model }],
    })),
    rate_limit: { requests_per_second: 10_000, burst: 20_000 },
    // For the lists of keys and members.
    accounts: {},
    webhooks: { allow: ['127.0.0.0/8'], pending_deliveries: 100_000 },
  })
}
