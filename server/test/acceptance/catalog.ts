/** The settings of the tests of errors and edges: small limits, and a model of every kind that can be offered now. */
export const SETTINGS = `
body_limit_bytes: 65536
open_requests_per_key: 2
providers:
  sandbox: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited }
models:
  - id: svc/demo
    aliases: [demo, vendor/demo]
    context_length: 4096
    max_output_tokens: 1024
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }
    targets: [{ provider: sandbox, model: sandbox }]
    economy:
      pricing: { input_per_1m_tokens_microcents: 499999, output_per_1m_tokens_microcents: 500000 }
      targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/dear
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 1000000, output_per_1m_tokens_cents: 1000000 }
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/soon
    status: coming_soon
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }
  - id: svc/retired
    status: deprecated
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }
  - id: svc/covered
    aliases: [covered]
    context_length: 4096
    plan_covered: true
    usage_factor: 2
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/words
    modality: embedding
    context_length: 512
    pricing: { input_per_1m_tokens_cents: 100 }
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/picture
    modality: image
    pricing: { per_image_cents: 1 }
    parameters: [{ name: size, type: enum, enum: ["64x64"], default: "64x64" }]
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/film
    modality: video
    pricing: { per_video_second_cents: 1 }
    parameters: [{ name: seconds, type: int, min: 1, max: 10, default: 4 }]
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/sized-film
    modality: video
    pricing: { per_video_second_cents: 1 }
    parameters:
      - { name: seconds, type: int, min: 2, max: 10, default: 4 }
      - { name: size, type: enum, enum: ["64x64"], default: "64x64" }
    targets: [{ provider: sandbox, model: sandbox }]
plans:
  - { key: small, name: Small, input_tokens_monthly: 100, output_tokens_monthly: 100, weekly_tokens: 150 }
  - key: large
    name: Large
    input_tokens_monthly: 1000000
    output_tokens_monthly: 1000000
    weekly_tokens: 1000000
    max_usage_cents: 100
`

/** A chat request that is good; `more` is laid over it. */
export function chat(more: Readonly<Record<string, unknown>> = {}, text = 'Hello.'): Record<string, unknown> {
  return { model: 'svc/demo', messages: [{ role: 'user', content: text }], ...more }
}

/** A request for embeddings that is good; `more` is laid over it. */
export function words(more: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return { model: 'svc/words', input: 'Hello.', ...more }
}

/** A request for an image that is good; `more` is laid over it. */
export function picture(more: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return { model: 'svc/picture', prompt: 'Hello.', ...more }
}

/** A request for a video that is good; `more` is laid over it. */
export function film(more: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return { model: 'svc/film', prompt: 'Hello.', ...more }
}

/** One that a sandbox model answers as the directive says. */
export function directed(directive: string, more: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return chat(more, `[[sandbox ${directive}]]`)
}
