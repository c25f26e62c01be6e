/** The settings of a run: models at every form of price, with peak windows on both sides of the present. */

import { type Seeded, seeded } from '../faults/seeded.ts'
import { contextOf, hasEconomy, hasSpare, hedgeAfterMsOf, MODELS, maxOutputOf } from './plan.ts'
import { instanceSettings } from './planInstance.ts'
import { secondsMostOf, secondsPresetOf, VIDEO_MODELS } from './planVideo.ts'
import {
  EMBEDDING_MODELS,
  embeddingContextOf,
  IMAGE_MODELS,
  IMAGES_MOST,
  isByMegapixel,
  presetCountOf,
  presetSizeOf,
  SIZES,
  takesSize,
} from './planWhole.ts'

const MINUTE_MS = 60_000
const MINUTES_A_DAY = 1_440

type Rate = Record<string, number>
interface Window {
  readonly start: string
  readonly end: string
}

/** Where a run's provider answers, and the path of the command that makes the machines of its instances. */
interface SettingsUrls {
  readonly provider: string
  readonly machineCommand: string
}

/**
 * JSON, which is YAML too and can be read without a library for that. `edgeMs` is a full minute within the run. The later
 * settings of a run have other prices for videos.
 */
export function settingsText(seed: number, edgeMs: number, urls: SettingsUrls, isLater: boolean): string {
  const videoRandom = seeded(Math.imul(seed, 49_979_687) + (isLater ? 1 : 0))
  const random = seeded(seed)
  const edgeMinute = Math.floor(edgeMs / MINUTE_MS) % MINUTES_A_DAY
  const models = [
    ...Array.from({ length: MODELS }, (_, model) => ({
      ...modelOf('m', model, (form) => pricingOf(random, form, edgeMinute, true)),
      context_length: contextOf(model),
      max_output_tokens: maxOutputOf(model),
    })),
    ...Array.from({ length: EMBEDDING_MODELS }, (_, model) => ({
      ...modelOf('e', model, (form) => pricingOf(random, form, edgeMinute, false)),
      modality: 'embedding',
      context_length: embeddingContextOf(model),
    })),
    ...Array.from({ length: IMAGE_MODELS }, (_, model) => ({
      ...modelOf('i', model, () => imagePriceOf(random, model)),
      modality: 'image',
      parameters: imageParameters(model),
    })),
    ...Array.from({ length: VIDEO_MODELS }, (_, model) => ({
      ...modelOf('v', model, () => videoPriceOf(videoRandom, model)),
      modality: 'video',
      parameters: [
        { name: 'seconds', type: 'int', min: 1, max: secondsMostOf(model), default: secondsPresetOf(model) },
      ],
      // More than are asked for at once: nobody waits for a turn but behind a refusal.
      video: { concurrency: 200, deadline_seconds: 60 },
    })),
  ]
  // Refusals are part of the run, and a line for each would be all that the log says.
  const rateLimit = { requests_per_second: 10_000, burst: 1_000_000 }
  // A fifth of the videos is cancelled, and some fail, of few organizations.
  const ofVideos = { video_cancellations_per_hour: 10_000, video_failures_per_hour: 10_000, queued_videos: 10_000 }
  const fixed = { log_level: 'fatal', drain_seconds: 60, rate_limit: rateLimit, ...ofVideos }
  const providers = { wire: { dialect: 'openai', base_url: urls.provider } }
  const instances = instanceSettings(seeded(Math.imul(seed, 86_028_121)), urls.machineCommand)
  return JSON.stringify({ ...fixed, providers, models, instances }, null, 1)
}

/** `pricing` by the form of price: another for the economy tier, which only chat has. */
function modelOf(letter: string, model: number, pricing: (form: number) => object): object {
  const name = `${letter}${model}`
  const hedgeAfterMs = letter === 'm' ? hedgeAfterMsOf(model) : null
  const targets = (of: string) =>
    [of, ...(hasSpare(model) ? [`${of}-spare`] : [])].map((each) => ({ provider: 'wire', model: each }))
  // A target that refuses at once refuses always: there is nothing to be patient for.
  const economy = () => ({
    pricing: pricing(model + 1),
    targets: targets(`${name}-economy`),
    routing: { cold_start_seconds: 0 },
  })
  return {
    id: `svc/${name}`,
    pricing: pricing(model),
    targets: targets(name),
    routing: { retries: model % 4 === 2 ? 1 : 0, ...(hedgeAfterMs === null ? {} : { hedge_after_ms: hedgeAfterMs }) },
    ...(letter === 'm' && hasEconomy(model) ? { economy: economy() } : {}),
  }
}

function imageParameters(model: number): object[] {
  const count = presetCountOf(model)
  const size = presetSizeOf(model)
  return [
    { name: 'n', type: 'int', min: 1, max: IMAGES_MOST, ...(count === null ? {} : { default: count }) },
    ...(takesSize(model)
      ? [{ name: 'size', type: 'enum', enum: SIZES, ...(size === null ? {} : { default: size }) }]
      : []),
  ]
}

function imagePriceOf(random: Seeded, model: number): object {
  if (isByMegapixel(model)) return { per_mpxl_microcents: random.between(1, 9_000_000) }
  return random.percent(50)
    ? { per_image_cents: random.between(1, 12) }
    : { per_image_microcents: random.between(1, 12_000_000) }
}

/** Of the first, so little that a second more costs nothing more. */
function videoPriceOf(random: Seeded, model: number): object {
  if (model === 0) return { per_video_second_microcents: random.between(1, 80_000) }
  if (model === 1) return { per_video_second_cents: random.between(1, 9) }
  const microcents = random.between(1, 9_000_000)
  const shown = { per_video_second_cents: Math.floor(microcents / 1_000_000 + 0.5), per_video_microcents: 40_000_000 }
  return { per_video_second_microcents: microcents, ...(model === 2 ? {} : shown) }
}

function pricingOf(random: Seeded, form: number, edgeMinute: number, hasOutput: boolean): object {
  const rate = (of: number) => (hasOutput ? rateOf(random, of) : inputRateOf(random, of))
  const windows = windowsOf(random, form, edgeMinute)
  if (windows === null) return rate(form)
  return { peak: rate(form), off_peak: rate(form + 1), peak_windows_utc: windows }
}

/** Of embeddings: dear enough for many to come to more than the least cent. */
function inputRateOf(random: Seeded, form: number): Rate {
  return form % 2 === 0
    ? { input_per_1m_tokens_cents: random.between(1, 20_000) }
    : { input_per_1m_tokens_microcents: random.between(1, 20_000_000_000) }
}

/** Null: one price all day. */
function windowsOf(random: Seeded, form: number, edgeMinute: number): Window[] | null {
  const window = (from: number, minutes: number): Window => ({ start: timeOf(from), end: timeOf(from + minutes) })
  switch (form % 6) {
    case 1:
      // Begins in the run.
      return [window(edgeMinute, random.between(1, 300))]
    case 2:
      // Ends in the run.
      return [{ start: timeOf(edgeMinute - random.between(1, 300)), end: timeOf(edgeMinute) }]
    case 3:
      // Every other minute from the edge on.
      return Array.from({ length: 20 }, (_, index) => window(edgeMinute + 2 * index, 1))
    case 4:
      // Far from the present, or around all of it, over midnight where that comes so.
      return [random.percent(50) ? window(edgeMinute + 600, 120) : window(edgeMinute - 300, 900)]
    default:
      return null
  }
}

function timeOf(minute: number): string {
  const within = ((minute % MINUTES_A_DAY) + MINUTES_A_DAY) % MINUTES_A_DAY
  return `${String(Math.floor(within / 60)).padStart(2, '0')}:${String(within % 60).padStart(2, '0')}`
}

/** In cents, in micro-cents, or in both; with a cached rate, at no discount, for nothing, or without one. */
function rateOf(random: Seeded, form: number): Rate {
  const cents = form % 2 === 0
  const input = cents ? random.between(1, 300) : random.between(1, 300_000_000)
  const output = cents ? random.between(0, 1_500) : random.between(1, 1_500_000_000)
  const unit = cents ? 'cents' : 'microcents'
  const rate: Rate = { [`input_per_1m_tokens_${unit}`]: input, [`output_per_1m_tokens_${unit}`]: output }
  if (!cents && random.percent(50)) rate['output_per_1m_tokens_cents'] = Math.floor(output / 1_000_000 + 0.5)
  if (random.percent(65))
    rate[`cached_input_per_1m_tokens_${unit}`] = random.percent(20) ? input : random.between(0, input)
  return rate
}
