import { z } from 'zod'
import { jsonAnswer } from '../../http/jsonAnswer.ts'
import type { Handle } from '../../http/pipeline.ts'
import type { KeyOrSession } from '../../http/principal.ts'
import { validate } from '../../http/validate.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'
import { LATEST_MS, parseTimestamp } from '../../lib/instant.ts'
import { LIMIT_DEFAULT, listLimit } from '../../lib/listLimit.ts'
import { BAD_CURSOR, cursorPage } from '../../lib/listPage.ts'
import { timestampField } from '../../lib/queryFields.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import { type Clock, toTimestamp } from '../../lib/time.ts'
import { BUCKETS, defaultBucket, windowOf } from './bucket.ts'
import { cursorFromWire, cursorToWire, EARLIEST_MS, GROUPINGS, type UsageCursor, type UsageQuestion } from './cursor.ts'
import { readUsagePage } from './read.ts'

const instant = timestampField(EARLIEST_MS, LATEST_MS, 'from 1970 up to 9998')

export const usageQuery = z.object({
  bucket: z
    .enum(BUCKETS, { error: `must be one of ${BUCKETS.join(', ')}` })
    .optional()
    .meta({ description: 'Default: `hour` up to 48 hours, `day` up to 62 days, `week` up to 366 days, else `month`.' }),
  group_by: z.enum(GROUPINGS, { error: `must be one of ${GROUPINGS.join(', ')}` }).optional(),
  start: instant.optional().meta({ description: 'Inclusive. Default: 30 days before `end`.' }),
  end: instant.optional().meta({ description: 'Exclusive. Default: now.' }),
  cursor: z
    .string()
    .optional()
    .meta({ description: 'The `next_cursor` of the page before. It includes bucket, group_by, start and end.' }),
  limit: listLimit(),
})
type UsageQuery = z.infer<typeof usageQuery>

/** The names of the parameters, for the route. */
export const USAGE_PARAMETERS: readonly string[] = Object.keys(usageQuery.shape)

const usageBucket = z
  .object({
    bucket_start: z.string().meta({ format: 'date-time' }),
    gpu_seconds: z
      .int()
      .meta({ description: 'The seconds that instances were billed for, times their GPUs. 0 for calls to models.' }),
    cost_cents: z
      .int()
      .meta({ description: 'The running total in whole cents at its end minus that at its start; buckets add up.' }),
    gpu_type: z.string().nullable().meta({ description: 'Only with `group_by`. Null for calls to models.' }),
    instance_id: z
      .string()
      .nullable()
      .meta({ description: 'Only with `group_by=instance_id`. Null for calls to models.' }),
  })
  .meta({ id: 'UsageBucket' })

export const usagePage = cursorPage(usageBucket, 'Buckets that are not empty, oldest first.', 'UsagePage')

/** GET /usage. */
export function showUsage(dependencies: { readonly database: Queryable; readonly clock: Clock }): Handle<KeyOrSession> {
  return async (call) => {
    const read = validate(usageQuery, Object.fromEntries(call.query), 'validation_failed')
    if (!read.ok) return read.refusal
    const query = read.value
    const asked =
      query.cursor === undefined ? toQuestion(query, dependencies.clock.now()) : toCursor(query.cursor, query)
    if (!asked.ok) return asked.refusal
    const { afterMs, afterGroup, ...question } = { afterMs: null, afterGroup: null, ...asked.value }
    const limit = query.limit ?? LIMIT_DEFAULT
    const page = await readUsagePage(dependencies, call.principal.organizationId, question, {
      after: afterMs === null ? null : { startMs: afterMs, group: afterGroup },
      limit,
    })
    const body: z.infer<typeof usagePage> = {
      data: page.buckets.map(({ startMs, cents, gpuSeconds, gpuType, instanceId }) => ({
        bucket_start: toTimestamp(startMs),
        gpu_seconds: gpuSeconds,
        cost_cents: cents,
        gpu_type: gpuType,
        instance_id: instanceId,
      })),
      next_cursor: page.next === null ? null : cursorToWire(page.next),
    }
    return jsonAnswer(body)
  }
}

function toQuestion(query: UsageQuery, nowMs: number): Result<UsageQuestion> {
  const window = windowOf(toInstant(query.start), toInstant(query.end), nowMs)
  if (window === null) return refused(invalid('start', 'must be earlier than end (unless given, end is now)'))
  if (window.startMs < EARLIEST_MS) return refused(invalid('end', 'must be at least 30 days after 1970-01-01'))
  return ok({ ...window, bucket: query.bucket ?? defaultBucket(window), groupBy: query.group_by ?? null })
}

/** Reads a cursor. Parameters beside it must be those of its first page; others are refused. */
function toCursor(text: string, query: UsageQuery): Result<UsageCursor> {
  const cursor = cursorFromWire(text)
  if (cursor === null) return refused(BAD_CURSOR)
  const other = [
    ['bucket', query.bucket ?? cursor.bucket, cursor.bucket],
    ['group_by', query.group_by ?? cursor.groupBy, cursor.groupBy],
    ['start', toInstant(query.start) ?? cursor.startMs, cursor.startMs],
    ['end', toInstant(query.end) ?? cursor.endMs, cursor.endMs],
  ].find(([, asked, fixed]) => asked !== fixed)
  if (other === undefined) return ok(cursor)
  return refused(invalid('cursor', `was made with another ${other[0]}; send the same ${other[0]}`))
}

function toInstant(text: string | undefined): number | null {
  return text === undefined ? null : parseTimestamp(text)
}

function invalid(param: string, what: string): Refusal {
  return refusal('validation_failed', `'${param}' ${what}.`, { param })
}
