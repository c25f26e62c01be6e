/** The one place that bounds the usage of a call (C10), whatever was reported or counted, of every modality. */

import type { TokenUsage } from '../../lib/tokenUsage.ts'
import type { ImageUsage } from './charge.ts'

/** The usage that a charge is computed from. Counts are whole numbers, at least 0. */
export interface Usage {
  readonly usage: TokenUsage
  /** Of images alone. */
  readonly images?: ImageUsage
  /** Of a video alone. */
  readonly videoSeconds?: number
}

/** The most that one call may be charged for: the usage that its hold was computed from. */
export interface UsageBound {
  readonly promptTokens: number
  /** `Infinity` when the provider was told no limit. */
  readonly completionTokens: number
  /** Prompt and completion together: the model's context; `Infinity` where each input has a context of its own. */
  readonly totalTokens: number
  readonly images: ImageUsage
  readonly videoSeconds: number
}

const NO_BOUND: UsageBound = {
  promptTokens: 0,
  completionTokens: 0,
  totalTokens: Number.POSITIVE_INFINITY,
  images: { count: 0, pixels: 0 },
  videoSeconds: 0,
}

/** Returns a bound of what is named; everything else is bounded to 0. */
export function usageBound(most: Partial<UsageBound>): UsageBound {
  return { ...NO_BOUND, ...most }
}

/** Returns `used` with each count cut to its bound; where prompt and completion pass the context, the completion is cut. */
export function boundUsage<Used extends Usage>(used: Used, bound: UsageBound): Used {
  if (isWithin(used, bound)) return used
  const usage = boundTokens(used.usage, bound)
  const { images, videoSeconds } = used
  return {
    ...used,
    usage,
    ...(images !== undefined && { images: boundImages(images, bound.images) }),
    ...(videoSeconds !== undefined && { videoSeconds: Math.min(videoSeconds, bound.videoSeconds) }),
  }
}

/** Nearly every usage is. */
function isWithin({ usage, images, videoSeconds = 0 }: Usage, bound: UsageBound): boolean {
  const { promptTokens, cachedPromptTokens, completionTokens } = usage
  return (
    promptTokens <= bound.promptTokens &&
    cachedPromptTokens <= promptTokens &&
    completionTokens <= bound.completionTokens &&
    promptTokens + completionTokens <= bound.totalTokens &&
    (images === undefined || (images.count <= bound.images.count && images.pixels <= bound.images.pixels)) &&
    videoSeconds <= bound.videoSeconds
  )
}

function boundTokens(usage: TokenUsage, bound: UsageBound): TokenUsage {
  const promptTokens = Math.min(usage.promptTokens, bound.promptTokens, bound.totalTokens)
  return {
    promptTokens,
    cachedPromptTokens: Math.min(usage.cachedPromptTokens, promptTokens),
    completionTokens: Math.min(usage.completionTokens, bound.completionTokens, bound.totalTokens - promptTokens),
  }
}

function boundImages(images: ImageUsage, bound: ImageUsage): ImageUsage {
  return { count: Math.min(images.count, bound.count), pixels: Math.min(images.pixels, bound.pixels) }
}
