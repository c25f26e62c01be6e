/** One chat model of the sandbox that answers at once, and a call of it. */

export const SETTINGS = `
providers:
  sandbox: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited }
models:
  - id: svc/chat
    context_length: 4096
    max_output_tokens: 64
    pricing: { input_per_1m_tokens_cents: 100000, output_per_1m_tokens_cents: 100000 }
    targets: [{ provider: sandbox, model: sandbox }]
`
export const CHAT = { model: 'svc/chat', messages: [{ role: 'user', content: 'Hello.' }], max_tokens: 8 }
