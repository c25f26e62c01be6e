import { z } from 'zod'
import { listLimit } from '../lib/listLimit.ts'

/** Characters of a prompt: more than any model reads. */
const PROMPT_MOST = 32_000

const NOT_SECONDS = { error: 'must be a whole number, at least 1' }

export const videoCreateRequest = z
  .strictObject({
    model: z.string().min(1).meta({ description: 'The id or alias of a video model.' }),
    prompt: z
      .string()
      .min(1, { error: 'must not be empty' })
      .max(PROMPT_MOST, { error: `must have at most ${PROMPT_MOST} characters` })
      .refine((text) => !text.includes('\0'), { error: 'must not hold the character U+0000' }),
    seconds: z
      .union(
        [z.int(NOT_SECONDS).min(1, NOT_SECONDS), z.string().regex(/^0{0,4}[1-9]\d{0,5}$/, NOT_SECONDS)],
        NOT_SECONDS,
      )
      .nullish()
      .meta({ description: 'Length in seconds; you pay by the second. Default: that of the model.' }),
    size: z
      .string()
      .regex(/^[1-9]\d{0,4}x[1-9]\d{0,4}$/, { error: "must be '<width>x<height>' in pixels, such as '1280x720'" })
      .nullish()
      .meta({ description: 'Only for models that list it among their parameters (GET /models).' }),
  })
  .meta({ id: 'VideoCreateRequest' })

export const videoJob = z
  .object({
    id: z.string(),
    object: z.literal('video'),
    model: z.string(),
    status: z.enum(['queued', 'in_progress', 'completed', 'failed', 'cancelled', 'expired']),
    progress: z.int().min(0).max(100).meta({ description: 'Some models stay at 0 until completion.' }),
    created_at: z.int().meta({ description: 'Unix seconds.' }),
    seconds: z.int().meta({ description: 'As requested or by default; once completed, as billed.' }),
    size: z.string().optional(),
    completed_at: z.int().nullable().meta({ description: 'Unix seconds.' }),
    expires_at: z.int().nullable().meta({ description: 'Unix seconds: 24 hours after completion.' }),
    cost_cents: z.int().nullable().meta({ description: 'The cost. It stays after the video has expired.' }),
    error: z
      .enum(['upstream_error', 'upstream_timeout', 'content_policy', 'invalid_output', 'internal_error'])
      .nullable()
      .meta({ description: 'Why it failed.' }),
  })
  .meta({ id: 'VideoJob' })

export const videoList = z
  .object({
    object: z.literal('list'),
    data: z.array(videoJob),
    first_id: z.string().nullable(),
    last_id: z.string().nullable().meta({ description: 'Send it as `after` to get the next page.' }),
    has_more: z.boolean(),
  })
  .meta({ id: 'VideoList' })

export const videosQuery = z.object({
  limit: listLimit(),
  after: z.string().optional().meta({ description: 'The id of the last video of the page before.' }),
  order: z.enum(['asc', 'desc'], { error: 'must be asc or desc' }).optional().meta({
    description: 'Order by time of creation. Default: `desc`, the newest first.',
  }),
})

/** The names of the parameters, for the route. */
export const VIDEOS_PARAMETERS: readonly string[] = Object.keys(videosQuery.shape)
