/** The bodies and parameters of the routes of instances. */

import { z } from 'zod'
import { listLimit } from '../lib/listLimit.ts'
import { cursorPage } from '../lib/listPage.ts'
import { instanceSchema } from './job/wire.ts'

const word = z.string().min(1).max(200)

export const instanceCreateRequest = z
  .strictObject({
    app: word.meta({ description: 'One of the apps of `GET /instances/offerings`.' }),
    gpu_type: word,
    gpu_count: z.int().min(1).max(1_000).nullish().meta({ description: 'Default: 1.' }),
    disk_gb: z.int().min(0).max(1_000_000).nullish().meta({ description: 'Default: 0.' }),
    model: word.nullish().meta({ description: 'One of the models of the app.' }),
    name: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}$/, {
        error: "must be 1 to 63 letters, digits, spaces, '.', '_' or '-'",
      })
      .nullish(),
    expected_price_per_hour_cents: z.int().min(0).meta({
      description:
        'The `price_per_hour_microcents` of the offerings times `gpu_count`, rounded half up to a cent. Another price by now: 409 `price_changed`.',
    }),
  })
  .meta({ id: 'InstanceCreateRequest' })

/** The body of a request that takes none. */
export const noFields = z.strictObject({})

export const instancePage = cursorPage(instanceSchema, 'Newest first.', 'InstancePage')

export const instancesQuery = z.object({
  cursor: z.string().optional().meta({ description: 'The `next_cursor` of the page before.' }),
  limit: listLimit(),
})

/** The names of the parameters, for the route. */
export const INSTANCES_PARAMETERS: readonly string[] = Object.keys(instancesQuery.shape)

export const appPasswordSchema = z
  .object({
    app_url: z.string().nullable().meta({ description: 'Null: the app does not answer yet, or has none.' }),
    terminal_url: z.string().nullable(),
    user: z.string(),
    password: z.string().meta({ description: 'It is shown again only to a request with the same `Idempotency-Key`.' }),
  })
  .meta({ id: 'AppPassword' })

export const offeringsSchema = z
  .object({
    gpu_types: z.array(
      z.object({
        name: z.string(),
        vram_gb: z.int().meta({ description: 'Of one GPU.' }),
        count: z.int().meta({ description: 'The most GPUs of one instance.' }),
        price_per_hour_cents: z.int().meta({ description: 'Of one GPU, rounded to a cent.' }),
        price_per_hour_microcents: z.int().meta({ description: 'The same, exact: a millionth of a cent is 1.' }),
        disk_gb_max: z.int(),
      }),
    ),
    apps: z.array(
      z.object({
        name: z.string(),
        port: z.int(),
        terminal: z.boolean(),
        vram_gb_min: z.int(),
        models: z.array(z.object({ name: z.string(), vram_gb: z.int() })),
      }),
    ),
  })
  .meta({ id: 'InstanceOfferings' })
