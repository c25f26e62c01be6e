/** The plan of each call for embeddings or images: by seed and number alone, like those of chat in `plan.ts`. */

import { type Seeded, seeded } from '../faults/seeded.ts'
import type { Payer } from './plan.ts'
import { reportedPrompt } from './planUsage.ts'
import { ONE_VIDEO_IN } from './planVideo.ts'
import { messageOf, spaced, WORDS, wordsIn } from './words.ts'

export type Kind = 'chat' | 'embedding' | 'image' | 'video'

/**
 * - `refused`, `limited`: 503 and 429 before anything
 * - `page`: a web page in place of an answer
 * - `short`: a body that ends properly in mid-answer
 * - `reset`: a connection that ends in the middle of a body
 * - `wrong`: an answer that is none: too few vectors, one twice, two lengths; no image among the images
 */
type WholeFailure = 'refused' | 'limited' | 'page' | 'short' | 'reset' | 'wrong'

interface WholePlanned {
  readonly number: number
  readonly payer: Payer
  readonly model: number
  readonly failure: WholeFailure | null
  /** True when the second target fails too, where there is one. */
  readonly spareFails: boolean
  /** The provider takes so long. */
  readonly afterMs: number
  /** The client leaves after so long; null: it stays. */
  readonly leavesAfterMs: number | null
}

export interface EmbeddingPlan extends WholePlanned {
  readonly kind: 'embedding'
  /** The first says the number of the call. Every word of them is a token. */
  readonly texts: readonly string[]
  readonly dimensions: number
  /** Undefined: the answer has none. */
  readonly usage: object | undefined
}

/** `page` is a web page in base64, `text` is no base64, `missing` is an item without an image. */
type ImageForm = 'png' | 'jpeg' | 'webp' | 'page' | 'text' | 'missing'

export interface WireImage {
  readonly form: ImageForm
  readonly width: number
  readonly height: number
  readonly bytes: number
}

export interface ImagePlan extends WholePlanned {
  readonly kind: 'image'
  readonly prompt: string
  /** Null: left to what is preset. */
  readonly count: number | null
  readonly size: string | null
  /** As the provider sends them: perhaps fewer or more than were asked for, and of other sizes. */
  readonly images: readonly WireImage[]
}

export type WholePlan = EmbeddingPlan | ImagePlan

export const EMBEDDING_MODELS = 4
/** One is so small that many a text is longer. */
export const embeddingContextOf = (model: number) => (model === 1 ? 64 : 1_048_576)
export const IMAGE_MODELS = 6
/** As the settings say, where they say it. */
export const IMAGES_MOST = 4
export const SIZES = ['64x64', '100x50', '333x777', '1024x1024', '3840x2160'] as const

/** Of image models, by their number: how many they preset, whether they take a size, and whether they preset one. */
export const presetCountOf = (model: number) => (model % 2 === 1 ? 2 : null)
export const takesSize = (model: number) => model >= 2
export const presetSizeOf = (model: number) => (model % 2 === 0 ? SIZES[2] : null)
/** Every other pair is priced by the megapixel. */
export const isByMegapixel = (model: number) => model % 4 >= 2

/** Which kind of call a number is: some two thirds are chat. */
export function kindOf(seed: number, number: number): Kind {
  const random = seeded(Math.imul(seed, 7_368_787) + number)
  const chance = random.between(1, 100)
  if (random.between(1, ONE_VIDEO_IN) === 1) return 'video'
  if (chance <= 66) return 'chat'
  return chance <= 84 ? 'embedding' : 'image'
}

export function planWhole(seed: number, number: number, kind: 'embedding' | 'image'): WholePlan {
  const random = seeded(Math.imul(seed, 15_485_863) + number)
  const model = random.between(0, (kind === 'embedding' ? EMBEDDING_MODELS : IMAGE_MODELS) - 1)
  const leaves = random.percent(8)
  const planned = {
    number,
    payer: payerOf(random),
    model,
    failure: !leaves && random.percent(10) ? failureOf(random) : null,
    spareFails: random.percent(30),
    afterMs: leaves || random.percent(20) ? random.between(1, 18) : 0,
    leavesAfterMs: leaves ? random.between(0, 15) : null,
  }
  return kind === 'embedding' ? embeddingOf(random, planned) : imageOf(random, planned)
}

/** An embedding costs a cent at least and an image often more: little of that is for those who have little. */
function payerOf(random: Seeded): Payer {
  const chance = random.between(1, 100)
  if (chance === 1) return 'poor'
  return chance === 2 ? 'capped' : random.pick(['first', 'second', 'third'])
}

function failureOf(random: Seeded): WholeFailure {
  return random.pick(['refused', 'limited', 'page', 'short', 'reset', 'wrong', 'wrong'])
}

function embeddingOf(random: Seeded, planned: WholePlanned): EmbeddingPlan {
  const longest = random.percent(10) ? 200 : 20
  const more = Array.from({ length: random.percent(50) ? 0 : random.between(1, 12) }, () =>
    spaced(random.pick(WORDS)).repeat(random.between(1, longest)),
  )
  const texts = [messageOf(planned.number), ...more]
  const dimensions = random.between(1, 24)
  return { ...planned, kind: 'embedding', texts, dimensions, usage: embeddingUsage(random, planned.model, texts) }
}

/** Counts, true and false, and what is no count. */
function embeddingUsage(random: Seeded, model: number, texts: readonly string[]): object | undefined {
  const tokens = reportedPrompt(random, {
    promptTokens: texts.reduce((sum, text) => sum + wordsIn(text), 0),
    promptBytes: texts.join('').length,
    contextTokens: texts.length * embeddingContextOf(model),
  })
  const chance = random.between(1, 100)
  if (chance <= 65) return { prompt_tokens: tokens, total_tokens: tokens }
  if (chance <= 80) return { total_tokens: tokens }
  if (chance <= 92) return undefined
  return random.pick<object>([
    { prompt_tokens: -1 },
    { prompt_tokens: 1.5 },
    { prompt_tokens: String(tokens) },
    { prompt_tokens: 9e15, total_tokens: 9e15 },
    {},
  ])
}

function imageOf(random: Seeded, planned: WholePlanned): ImagePlan {
  const { model, number } = planned
  const count = random.percent(60) ? random.between(1, IMAGES_MOST) : null
  const size = takesSize(model) && random.percent(60) ? random.pick(SIZES) : null
  const asked = count ?? presetCountOf(model) ?? 1
  const sent = random.percent(80) ? asked : random.between(1, IMAGES_MOST + 2)
  const images = Array.from({ length: sent }, () => wireImage(random, size))
  // One at least is an image, or it is no success: failures are planned, and not by chance.
  const isSome = images.some(({ form }) => form === 'png' || form === 'jpeg' || form === 'webp')
  const [first, ...rest] = images
  const sure = isSome || first === undefined ? images : [{ ...first, form: 'png' as const }, ...rest]
  return { ...planned, kind: 'image', prompt: messageOf(number), count, size, images: sure }
}

function wireImage(random: Seeded, size: string | null): WireImage {
  const [width = 512, height = 512] = (size ?? '512x512').split('x').map(Number)
  const isOther = random.percent(30)
  return {
    form: random.percent(90) ? random.pick(['png', 'png', 'jpeg', 'webp']) : random.pick(['page', 'text', 'missing']),
    width: isOther ? random.between(1, 5_000) : width,
    height: isOther ? random.between(1, 5_000) : height,
    bytes: random.percent(5) ? random.between(50_000, 200_000) : random.between(80, 4_000),
  }
}
