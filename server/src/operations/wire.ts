import { z } from 'zod'
import { toTimestamp } from '../lib/time.ts'
import { OPERATION_KINDS, OPERATION_STATES, type Operation } from './operation.ts'

const instantField = z.string().meta({ format: 'date-time' })

export const operationSchema = z
  .object({
    operation_id: z.string().meta({ format: 'uuid' }),
    kind: z.enum(OPERATION_KINDS),
    state: z.enum(OPERATION_STATES),
    created_at: instantField,
    updated_at: instantField,
    completed_at: instantField.nullable(),
    resource_id: z.string().nullable().meta({ description: 'The id of the instance.' }),
    error: z
      .object({ code: z.literal('operation_failed'), detail: z.string() })
      .nullable()
      .meta({ description: 'Of a failed operation.' }),
    result: z
      .object({
        app_url: z.string().nullable(),
        terminal_url: z.string().nullable(),
        app_basic_auth_user: z.string().nullable().meta({ description: 'Null: the app asks for no password of ours.' }),
      })
      .nullable()
      .meta({ description: 'Of an `instance.create` that succeeded.' }),
    warnings: z
      .array(z.string())
      .optional()
      .meta({ description: 'Advice. Only in the answer that accepts the creation of an instance.' }),
  })
  .meta({ id: 'Operation' })

/** Returns an operation as it is shown. */
export function operationToWire(operation: Operation): z.infer<typeof operationSchema> {
  const { errorDetail, result, completedAtMs } = operation
  return {
    operation_id: operation.id,
    kind: operation.kind,
    state: operation.state,
    created_at: toTimestamp(operation.createdAtMs),
    updated_at: toTimestamp(operation.updatedAtMs),
    completed_at: completedAtMs === null ? null : toTimestamp(completedAtMs),
    resource_id: operation.resourceId,
    error: errorDetail === null ? null : { code: 'operation_failed', detail: errorDetail },
    result:
      result === null
        ? null
        : {
            app_url: result.appUrl,
            terminal_url: result.terminalUrl,
            app_basic_auth_user: result.appUser ?? null,
          },
  }
}
