import { FILLED_MODELS, FILLED_PRICE } from './books.ts'

/** The mock's model of which a call costs a fifth of a cent, so that some hundred calls use a small balance up. */
export const DEAR_MODEL = 'mock-8x0'
export const DEAR_TOKENS = 8
const DEAR_PRICING = { input_per_1m_tokens_cents: 0, output_per_1m_tokens_cents: 25_000 }

/** Returns the text of a settings file: the filled models, others that nobody calls, and no limit of calls that a bench would meet. */
export function settingsOf(mockPort: number, moreModels: readonly string[] = []): string {
  const pricing = {
    input_per_1m_tokens_microcents: Number(FILLED_PRICE.inputMicrocents),
    output_per_1m_tokens_microcents: Number(FILLED_PRICE.outputMicrocents),
  }
  return JSON.stringify({
    providers: { mock: { dialect: 'openai', base_url: `http://127.0.0.1:${mockPort}/v1` } },
    models: [...FILLED_MODELS, DEAR_MODEL, ...moreModels].map((model) => ({
      id: `svc/${model}`,
      context_length: 131_072,
      max_output_tokens: 16_384,
      pricing: model === DEAR_MODEL ? DEAR_PRICING : pricing,
      targets: [{ provider: 'mock', model }],
    })),
    rate_limit: { requests_per_second: 10_000, burst: 20_000 },
    // For the lists of keys and members.
    accounts: {},
    webhooks: { allow: ['127.0.0.0/8'], pending_deliveries: 100_000 },
  })
}
