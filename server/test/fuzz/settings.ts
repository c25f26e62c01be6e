/** Simulated models of every kind, and limits that are out of the way. */
export const SETTINGS = `
open_requests_per_key: 1000
rate_limit: { requests_per_second: 10000, burst: 100000 }
video_cancellations_per_hour: 10000
video_failures_per_hour: 10000
queued_videos: 10000
webhooks: { tests_per_minute: 600 }
# Each request says that it comes from elsewhere: unknown keys are counted by address.
trusted_proxies: [127.0.0.0/8]
providers:
  sandbox: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited, video_seconds_per_second: unlimited }
  # Thousands of clips are asked for, which nobody needs to see.
  endless: { dialect: sandbox, video_seconds_per_second: 0.01 }
models:
  - id: svc/chat
    aliases: [chat, vendor/chat]
    context_length: 131072
    max_output_tokens: 1024
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200, cached_input_per_1m_tokens_cents: 10 }
    targets: [{ provider: sandbox, model: sandbox }]
    economy:
      pricing: { input_per_1m_tokens_microcents: 499999, output_per_1m_tokens_microcents: 500000 }
      targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/daily
    context_length: 4096
    plan_covered: true
    pricing:
      peak: { input_per_1m_tokens_cents: 200, output_per_1m_tokens_cents: 400 }
      off_peak: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }
      peak_windows_utc: [{ start: "08:00", end: "20:00" }]
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/words
    aliases: [words]
    modality: embedding
    context_length: 8192
    pricing: { input_per_1m_tokens_cents: 100 }
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/picture
    aliases: [picture]
    modality: image
    pricing: { per_image_cents: 1 }
    parameters:
      - { name: n, type: int, min: 1, max: 4 }
      - { name: size, type: enum, enum: ["64x64", "128x64"], default: "64x64" }
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/area
    modality: image
    pricing: { per_mpxl_microcents: 4000000 }
    parameters: [{ name: size, type: enum, enum: ["64x64", "128x64"], default: "64x64" }]
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/film
    aliases: [film]
    modality: video
    pricing: { per_video_second_cents: 1 }
    parameters:
      - { name: seconds, type: int, min: 1, max: 8, default: 4 }
      - { name: size, type: enum, enum: ["64x64", "128x64"], default: "64x64" }
    targets: [{ provider: endless, model: sandbox }]
  - id: svc/clip
    modality: video
    pricing: { per_video_second_cents: 1 }
    parameters: [{ name: seconds, type: int, min: 1, max: 8, default: 1 }]
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/later
    modality: video
    status: coming_soon
    pricing: { per_video_second_cents: 5 }
  - id: svc/retired
    status: deprecated
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }
plans:
  - key: small
    name: Small
    input_tokens_monthly: 1000000
    output_tokens_monthly: 1000000
    weekly_tokens: 1000000
    max_usage_cents: 100
`

const CHAT = ['svc/chat', 'chat', 'vendor/chat', 'svc/chat:economy', 'svc/daily']
const VECTORS = ['svc/words', 'words']
const IMAGES = ['svc/picture', 'picture', 'svc/area']
const VIDEOS = ['svc/film', 'film']

/** The models that a hook puts into cases, by operation as schemathesis writes it. */
export const MODELS: Readonly<Record<string, readonly string[]>> = {
  'POST /chat/completions': CHAT,
  'POST /embeddings': VECTORS,
  'POST /images/generations': IMAGES,
  'POST /videos': VIDEOS,
  'GET /inference/preflight': [...CHAT, ...VECTORS, ...IMAGES, ...VIDEOS],
  'GET /models/{id}': [...CHAT, ...VECTORS, ...IMAGES, ...VIDEOS, 'svc/later', 'svc/retired'],
}
export const SIZES: readonly string[] = ['64x64', '128x64']
/** The number of images that every image model above makes at once. */
export const IMAGES_MOST = 4
/** The longest clip of the video models that are asked. */
export const SECONDS_MOST = 8
