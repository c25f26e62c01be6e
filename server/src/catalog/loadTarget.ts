import { z } from 'zod'
import type { Path, Report } from './document.ts'
import {
  DEFAULT_ROUTING,
  type Modality,
  TARGET_CHOICES,
  type Target,
  type TierName,
  type TierRouting,
} from './model.ts'
import { type ProviderSettings, SERVED_MODALITIES } from './provider.ts'
import { closed, label, nearest, seconds, whole } from './shape.ts'

/** More attempts than this at one call only add to its wait. */
const TARGETS_MAX = 16

export const TargetsShape = z
  .array(
    closed({
      provider: z.string(),
      model: label.optional(),
      weight: whole(1, 1_000).optional(),
      backup: z.boolean().optional(),
    }),
  )
  .max(TARGETS_MAX)

/** Each retry may take as long as the first try did. */
const RETRIES_MAX = 5
const HEDGE_MOST_MS = 600_000
const COLD_START_MOST_SECONDS = 600

export const RoutingShape = closed({
  choice: z.enum(TARGET_CHOICES).optional(),
  retries: whole(0, RETRIES_MAX).optional(),
  hedge_after_ms: whole(1, HEDGE_MOST_MS).optional(),
  cold_start_seconds: seconds(0, COLD_START_MOST_SECONDS).optional(),
}).optional()

/** Returns how a tier's targets are asked; what is left out is as it comes. */
export function loadRouting(tier: TierName, read: z.infer<typeof RoutingShape>): TierRouting {
  const preset = DEFAULT_ROUTING[tier]
  return {
    choice: read?.choice ?? preset.choice,
    retries: read?.retries ?? preset.retries,
    hedgeAfterMs: read?.hedge_after_ms ?? preset.hedgeAfterMs,
    coldStartMs:
      read?.cold_start_seconds === undefined ? preset.coldStartMs : Math.round(read.cold_start_seconds * 1_000),
  }
}

/** Every name under `providers`; null where the entry itself was refused, which is reported there. */
export type NamedProviders = ReadonlyMap<string, ProviderSettings | null>

interface Needs {
  /** Only a model that is not active may have no target. */
  readonly active: boolean
  readonly contextTokens: number
  readonly modality: Modality
  readonly hasFfmpeg: boolean
  /** As the file has it. */
  readonly maxOutputTokens: number | undefined
}

/** Reads the targets of a tier. `path` is the tier's. Null where something was reported. */
export function loadTargets(
  given: z.infer<typeof TargetsShape> | undefined,
  needs: Needs,
  path: Path,
  providers: NamedProviders,
  report: Report,
): readonly Target[] | null {
  const at = [...path, 'targets']
  if (given === undefined || given.length === 0) {
    if (!needs.active) return []
    report(at, "must name at least one target, such as '- { provider: NAME, model: NAME }'")
    return null
  }
  const targets: Target[] = []
  let sound = true
  const reject = (index: number, key: string, reason: string) => {
    report([...at, index, key], reason)
    sound = false
  }
  for (const [index, { provider: name, model, weight, backup }] of given.entries()) {
    const provider = providers.get(name)
    if (provider === undefined) {
      const near = nearest(name, providers.keys())
      reject(
        index,
        'provider',
        `there is no provider of this name${near === null ? ": add it under 'providers'" : `: did you mean '${near}'?`}`,
      )
      continue
    }
    if (provider && !SERVED_MODALITIES[provider.dialect].includes(needs.modality)) {
      reject(
        index,
        'provider',
        `the dialect '${provider.dialect}' serves no ${needs.modality} models: name another provider`,
      )
    }
    if (provider?.dialect === 'sdcpp' && needs.modality === 'video' && !needs.hasFfmpeg) {
      const reason =
        "makes webm and avi, which only ffmpeg turns into mp4: install ffmpeg on the gateway's machine ('apt-get install ffmpeg'), in its PATH"
      reject(index, 'provider', reason)
    }
    if (provider && 'apiKey' in provider && model === undefined) {
      reject(index, 'model', 'is missing: it must be the name that the model has at the provider')
    }
    if (provider && 'workflows' in provider && model !== undefined && !Object.hasOwn(provider.workflows, model)) {
      reject(index, 'model', "has no workflow: add it under the provider's 'workflows'")
    }
    if (provider?.dialect === 'gguf' && provider.contextTokens < needs.contextTokens) {
      const reason = `gives each call ${provider.contextTokens} tokens, and the model's context_length is ${needs.contextTokens}: lower that, or raise the provider's context_tokens`
      reject(index, 'provider', reason)
    }
    if (provider?.dialect === 'anthropic' && needs.maxOutputTokens === undefined) {
      // The API must be told a limit, and refuses one above the model's own.
      const reason = "needs the model's max_output_tokens: add it to the model, as the provider documents it"
      reject(index, 'provider', reason)
    }
    const target = {
      provider: name,
      model: model ?? name,
      ...(weight === undefined ? {} : { weight }),
      ...(backup === true ? { backup } : {}),
    }
    if (targets.some((other) => other.provider === target.provider && other.model === target.model)) {
      reject(index, 'provider', 'stands twice in this list: remove one of them')
    }
    targets.push(target)
  }
  return sound ? targets : null
}
