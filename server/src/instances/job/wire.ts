import { z } from 'zod'
import { centsRoundedHalfUp } from '../../catalog/price.ts'
import { toTimestamp } from '../../lib/time.ts'
import { INSTANCE_REASONS, INSTANCE_STATES, type Instance, isLive } from './instance.ts'

const instantField = z.string().meta({ format: 'date-time' })

export const instanceSchema = z
  .object({
    id: z.string().meta({ format: 'uuid' }),
    object: z.literal('instance'),
    name: z.string(),
    app: z.string(),
    model: z.string().nullable(),
    gpu_type: z.string(),
    gpu_count: z.int(),
    disk_gb: z.int(),
    state: z.enum(INSTANCE_STATES),
    reason: z.enum(INSTANCE_REASONS).nullable().meta({ description: 'Why it ended.' }),
    price_per_hour_cents: z
      .int()
      .meta({ description: 'Of the whole instance, rounded to a cent; fixed at its creation.' }),
    created_at: instantField.meta({ description: 'It is billed from here on, if it ever runs or is deleted.' }),
    running_at: instantField.nullable(),
    ended_at: instantField.nullable().meta({ description: 'It costs nothing from here on.' }),
    app_url: z.string().nullable().meta({ description: 'Null: nothing answers, not yet or not any more.' }),
    terminal_url: z.string().nullable(),
  })
  .meta({ id: 'Instance' })

/** Returns an instance as it is shown. */
export function instanceToWire(instance: Instance): z.infer<typeof instanceSchema> {
  const instant = (atMs: number | null) => (atMs === null ? null : toTimestamp(atMs))
  return {
    id: instance.id,
    object: 'instance',
    name: instance.name,
    app: instance.app,
    model: instance.model,
    gpu_type: instance.gpuType,
    gpu_count: instance.gpuCount,
    disk_gb: instance.diskGb,
    state: instance.state,
    reason: instance.reason,
    price_per_hour_cents: hourCentsOf(instance.hourMicrocents),
    created_at: toTimestamp(instance.createdAtMs),
    running_at: instant(instance.runningAtMs),
    ended_at: instant(instance.endedAtMs),
    ...(isLive(instance)
      ? { app_url: instance.appUrl, terminal_url: instance.terminalUrl }
      : { app_url: null, terminal_url: null }),
  }
}

/** Returns an hourly price in whole cents, as customers see it. */
export function hourCentsOf(microcents: bigint): number {
  return Number(centsRoundedHalfUp(microcents))
}
