import { z } from 'zod'
import { MODALITIES, MODEL_STATUSES } from './model.ts'

/** The catalog in the machine-readable description: every field of the interface. */

const amount = z.int().min(0)

const ModelRateSchema = z
  .object({
    input_per_1m_tokens_cents: amount.optional(),
    input_per_1m_tokens_microcents: amount.optional(),
    output_per_1m_tokens_cents: amount.optional(),
    output_per_1m_tokens_microcents: amount.optional(),
    cached_input_per_1m_tokens_cents: amount.optional(),
    cached_input_per_1m_tokens_microcents: amount.optional(),
  })
  .meta({ id: 'ModelRate' })

const PeakWindowSchema = z
  .object({
    start: z.string().meta({ description: 'HH:MM UTC, inclusive.' }),
    end: z.string().meta({ description: 'HH:MM UTC, exclusive; 24:00 is valid; before the start it wraps midnight.' }),
  })
  .meta({ id: 'PeakWindow' })

export const PricingSchema = z
  .object({
    currency: z.string().optional(),
    input_per_1m_tokens_cents: amount.optional(),
    output_per_1m_tokens_cents: amount.optional(),
    cached_input_per_1m_tokens_microcents: amount.optional().meta({
      description: 'Exact rate for cache-hit prompt tokens. A micro-cent is 1e-6 cent. Absent: no discount.',
    }),
    cached_input_per_1m_tokens_cents: amount.optional().meta({
      description: 'Rounded; left out when the exact rate is below half a cent.',
    }),
    per_image_cents: amount.optional(),
    per_image_microcents: amount.optional(),
    per_mpxl_microcents: amount.optional(),
    per_video_microcents: amount.optional(),
    per_video_second_cents: amount.optional(),
    per_video_second_microcents: amount.optional(),
    off_peak: ModelRateSchema.optional(),
    peak: ModelRateSchema.optional(),
    peak_windows_utc: z.array(PeakWindowSchema).optional(),
    period: z.enum(['peak', 'off_peak']).optional(),
  })
  .meta({
    id: 'Pricing',
    description:
      'US cents, rounded half up for display; charges are exact. Where the price depends on the time of day (UTC), the flat rates and `period` are those of the instant of the response, and a request is charged at the rate in effect when it arrives.',
  })

const ParameterDescriptorSchema = z
  .object({
    name: z.string(),
    type: z.enum(['enum', 'int', 'string', 'bool']),
    default: z.union([z.string(), z.number(), z.boolean()]).optional(),
    enum: z.array(z.string()).optional(),
    min: z.int().optional(),
    max: z.int().optional(),
  })
  .meta({ id: 'ParameterDescriptor' })

export const ModelSchema = z
  .object({
    id: z.string().meta({ description: 'Canonical id.', examples: ['svc/sandbox'] }),
    object: z.literal('model'),
    owned_by: z.string(),
    modality: z.enum(MODALITIES),
    status: z.enum(MODEL_STATUSES).meta({ description: 'Only active models can be called.' }),
    pricing: PricingSchema,
    aliases: z.array(z.string()).optional(),
    author: z.string().optional(),
    category: z.string().optional().meta({ description: 'Mirrors modality.' }),
    context_length: z.int().optional(),
    created: z.int().meta({ description: "Unix seconds. 0: the server's settings don't say." }),
    fine_tunable: z.boolean().optional(),
    fine_tune_base_model: z.string().optional(),
    parameters: z.array(ParameterDescriptorSchema).optional(),
    plan_covered: z.boolean().optional(),
    supported_parameters: z.array(z.string()).optional(),
  })
  .meta({ id: 'Model' })

export const ModelListSchema = z
  .object({ object: z.literal('list'), data: z.array(ModelSchema) })
  .meta({ id: 'ModelList' })

/** The query of `GET /models`, for the description; `http.ts` reads it in its own words of refusal. */
export const ModelsQuerySchema = z.object({ modality: z.enum(MODALITIES).optional() })
