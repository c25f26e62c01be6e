import { z } from 'zod'
import type { Path, Report } from './document.ts'
import type { Modality, Target } from './model.ts'
import { closed, label, nearest } from './shape.ts'
import { SERVED_MODALITIES, type UpstreamSettings } from './upstream.ts'

/** More attempts than this at one call only add to its wait. */
const TARGETS_MAX = 16

export const TargetsShape = z.array(closed({ upstream: z.string(), model: label.optional() })).max(TARGETS_MAX)

/** Every name under `upstreams`; null where the entry itself was refused, which is reported there. */
export type NamedUpstreams = ReadonlyMap<string, UpstreamSettings | null>

interface Needs {
  /** Only a model that is not active may have no target. */
  readonly active: boolean
  readonly contextTokens: number
  readonly modality: Modality
  /** As the file has it. */
  readonly maxOutputTokens: number | undefined
}

/** Reads the targets of a tier. `path` is the tier's. Null where something was reported. */
export function loadTargets(
  given: z.infer<typeof TargetsShape> | undefined,
  needs: Needs,
  path: Path,
  upstreams: NamedUpstreams,
  report: Report,
): readonly Target[] | null {
  const at = [...path, 'targets']
  if (given === undefined || given.length === 0) {
    if (!needs.active) return []
    report(at, "must name at least one target, such as '- { upstream: NAME, model: NAME }'")
    return null
  }
  const targets: Target[] = []
  let sound = true
  const reject = (index: number, key: string, reason: string) => {
    report([...at, index, key], reason)
    sound = false
  }
  for (const [index, { upstream: name, model }] of given.entries()) {
    const upstream = upstreams.get(name)
    if (upstream === undefined) {
      const near = nearest(name, upstreams.keys())
      reject(
        index,
        'upstream',
        `there is no upstream of this name${near === null ? ": add it under 'upstreams'" : `: did you mean '${near}'?`}`,
      )
      continue
    }
    if (upstream && !SERVED_MODALITIES[upstream.dialect].includes(needs.modality)) {
      reject(
        index,
        'upstream',
        `the dialect '${upstream.dialect}' serves no ${needs.modality} models: name another upstream`,
      )
    }
    if (upstream && 'apiKey' in upstream && model === undefined) {
      reject(index, 'model', 'is missing: it must be the name that the upstream knows the model by')
    }
    if (upstream?.dialect === 'gguf' && upstream.contextTokens < needs.contextTokens) {
      const reason = `gives each call ${upstream.contextTokens} tokens, and the model's context_length is ${needs.contextTokens}: lower that, or raise the upstream's context_tokens`
      reject(index, 'upstream', reason)
    }
    if (upstream?.dialect === 'anthropic' && needs.maxOutputTokens === undefined) {
      // The API must be told a limit, and refuses one above the model's own.
      const reason = "needs the model's max_output_tokens: add it to the model, as the provider documents it"
      reject(index, 'upstream', reason)
    }
    const target = { upstream: name, model: model ?? name }
    if (targets.some((other) => other.upstream === target.upstream && other.model === target.model)) {
      reject(index, 'upstream', 'stands twice in this list: remove one of them')
    }
    targets.push(target)
  }
  return sound ? targets : null
}
