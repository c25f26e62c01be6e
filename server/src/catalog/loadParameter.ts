import { z } from 'zod'
import type { Path } from './document.ts'
import { CHAT_PARAMETERS, type Modality, type ParameterDescriptor } from './model.ts'
import { closed, label } from './shape.ts'

/** Entries of any one list of a model. */
export const LIST_MAX = 64

export const parameterName = z.string().regex(/^[a-z][a-z0-9_]{0,63}$/, 'must be a name of a-z, 0-9 and _')

export const DescriptorShape = closed({
  name: parameterName,
  type: z.enum(['enum', 'int', 'string', 'bool']),
  default: z.union([z.string(), z.number(), z.boolean()], 'must be text, a number, true or false').optional(),
  enum: z.array(label).min(1).max(LIST_MAX).optional(),
  min: z.int().optional(),
  max: z.int().optional(),
})

type DescriptorInput = z.infer<typeof DescriptorShape>

interface Fault {
  /** From the model's own section. */
  readonly at: Path
  readonly reason: string
}

/** Returns the mistakes in a model's `parameters` and `supported_parameters`. */
export function parameterFaults(
  modality: Modality,
  descriptors: readonly DescriptorInput[],
  supported: readonly string[],
): readonly Fault[] {
  const faults: Fault[] = []
  if (modality === 'chat') {
    if (descriptors.length > 0) {
      faults.push({ at: ['parameters'], reason: "is for image and video models: use 'supported_parameters'" })
    }
    for (const [index, name] of supported.entries()) {
      if (CHAT_PARAMETERS.some((parameter) => parameter === name)) continue
      const reason = `chat takes ${CHAT_PARAMETERS.join(', ')}: remove this one`
      faults.push({ at: ['supported_parameters', index], reason })
    }
  }
  const taken = modality === 'image' ? IMAGE_PARAMETERS : modality === 'video' ? VIDEO_PARAMETERS : null
  if (taken !== null) faults.push(...mediaFaults(`${modality}s`, taken, descriptors))
  const names = new Set<string>()
  for (const [index, descriptor] of descriptors.entries()) {
    const reason = names.has(descriptor.name) ? 'is declared twice: remove one' : descriptorFault(descriptor)
    if (reason !== null) faults.push({ at: ['parameters', index], reason })
    names.add(descriptor.name)
  }
  return faults
}

/** The parameters of `POST /images/generations` beside the prompt, with their types. */
const IMAGE_PARAMETERS: Readonly<Record<string, DescriptorInput['type']>> = { n: 'int', size: 'enum' }

/** The parameters of `POST /videos` beside the prompt, with their types. */
const VIDEO_PARAMETERS: Readonly<Record<string, DescriptorInput['type']>> = { seconds: 'int', size: 'enum' }

const SIZE = /^[1-9]\d{0,4}x[1-9]\d{0,4}$/

function mediaFaults(
  what: string,
  taken: Readonly<Record<string, DescriptorInput['type']>>,
  descriptors: readonly DescriptorInput[],
): Fault[] {
  const faults: Fault[] = []
  for (const [index, { name, type, min, enum: sizes }] of descriptors.entries()) {
    const wanted = Object.hasOwn(taken, name) ? taken[name] : undefined
    let reason: string | null = null
    if (wanted === undefined) reason = `${what} take ${Object.keys(taken).join(' and ')}: remove this one`
    else if (type !== wanted) reason = `must have 'type: ${wanted}'`
    else if (min !== undefined && min < 1) reason = "'min' must be at least 1"
    else if (name === 'size' && sizes?.every((size) => SIZE.test(size)) !== true) {
      reason = "'enum' must list sizes such as '1024x1024'"
    }
    if (reason !== null) faults.push({ at: ['parameters', index], reason })
  }
  return faults
}

function descriptorFault({ type, default: preset, enum: choices, min, max }: DescriptorInput): string | null {
  if ((type === 'enum') !== (choices !== undefined)) return "'enum' (a list) and 'type: enum' go together"
  if (type !== 'int' && (min !== undefined || max !== undefined)) return "'min' and 'max' need 'type: int'"
  if (min !== undefined && max !== undefined && min > max) return "'min' is above 'max'"
  if (preset === undefined) return null
  const fits = {
    enum: choices?.some((choice) => choice === preset) ?? false,
    int: Number.isSafeInteger(preset) && Number(preset) >= (min ?? -Infinity) && Number(preset) <= (max ?? Infinity),
    string: typeof preset === 'string',
    bool: typeof preset === 'boolean',
  }
  return fits[type] ? null : "'default' is not a value that the parameter takes"
}

/** Copies the descriptor without its undefined keys. */
export function toDescriptor(read: DescriptorInput): ParameterDescriptor {
  const { name, type } = read
  return {
    name,
    type,
    ...(read.default !== undefined && { default: read.default }),
    ...(read.enum !== undefined && { enum: read.enum }),
    ...(read.min !== undefined && { min: read.min }),
    ...(read.max !== undefined && { max: read.max }),
  }
}
