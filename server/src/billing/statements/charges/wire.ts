/** How charges and amounts are written, in lists, exports and statements alike. */

import { z } from 'zod'
import { toTimestamp } from '../../../lib/time.ts'
import type { PostedCharge } from './charge.ts'

const instantField = z.string().meta({ format: 'date-time' })
export const microcentsField = z
  .string()
  .regex(/^-?\d+$/)
  .meta({
    description: 'Micro-cents (a millionth of a US cent), as digits: it may pass what a JSON number holds exactly.',
  })

export const CHARGE_SHAPE = {
  id: z.string().meta({ format: 'uuid' }),
  admitted_at: instantField.meta({
    description: 'When the call was admitted. This decides the price and the day of usage.',
  }),
  posted_at: instantField.meta({
    description: 'When the charge was posted. The statement of this month has the charge.',
  }),
  key_id: z.string().meta({ format: 'uuid' }),
  model: z.string(),
  tier: z.enum(['serverless', 'economy']),
  modality: z.enum(['chat', 'embedding', 'image', 'video', 'instance']),
  prompt_tokens: z.int(),
  cached_prompt_tokens: z.int(),
  completion_tokens: z.int(),
  image_count: z.int(),
  video_seconds: z.int(),
  instance_id: z.string().optional().meta({ format: 'uuid', description: 'Only of charges of instances.' }),
  gpu_count: z.int().optional().meta({ description: 'Only of charges of instances.' }),
  instance_seconds: z
    .int()
    .optional()
    .meta({ description: 'Only of charges of instances: the seconds that it pays for.' }),
  estimated: z
    .boolean()
    .meta({ description: 'True: the tokens were counted here, because none, or far too few, were reported.' }),
  covered: z.boolean().meta({ description: 'True: a plan pays for it.' }),
  outcome: z.enum(['completed', 'cancelled', 'interrupted', 'cut']),
}

type WireCharge = z.infer<z.ZodObject<typeof CHARGE_SHAPE>>

/** A charge without its amount, which lists write as a cost and exports as a movement of the balance. */
export function chargeToWire(made: PostedCharge): WireCharge {
  return {
    id: made.id,
    admitted_at: toTimestamp(made.admittedAtMs),
    posted_at: toTimestamp(made.postedAtMs),
    key_id: made.keyId,
    model: made.model,
    tier: made.tier as WireCharge['tier'],
    modality: made.modality as WireCharge['modality'],
    prompt_tokens: Number(made.promptTokens),
    cached_prompt_tokens: Number(made.cachedPromptTokens),
    completion_tokens: Number(made.completionTokens),
    image_count: made.imageCount,
    video_seconds: made.videoSeconds,
    ...(made.rented === null ? {} : rentedToWire(made.rented)),
    estimated: made.estimated,
    covered: made.isCovered,
    outcome: made.outcome as WireCharge['outcome'],
  }
}

function rentedToWire({ instanceId, gpuCount, seconds }: NonNullable<PostedCharge['rented']>) {
  return { instance_id: instanceId, gpu_count: gpuCount, instance_seconds: seconds }
}
