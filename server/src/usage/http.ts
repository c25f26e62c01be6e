import { z } from 'zod'
import type { Handle } from '../edge/pipeline.ts'
import { validate } from '../edge/validate.ts'
import type { Queryable } from '../io/postgres/database.ts'
import { type Refusal, refusal } from '../kernel/errors.ts'
import { LATEST_MS } from '../kernel/instant.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import { type Clock, toTimestamp } from '../kernel/time.ts'
import { BUCKETS, defaultBucket, windowOf } from './bucket.ts'
import { cursorFromWire, cursorToWire, EARLIEST_MS, GROUPINGS, type UsageCursor, type UsageQuestion } from './cursor.ts'
import { readUsagePage } from './read.ts'

const LIMIT_MOST = 200
const LIMIT_DEFAULT = 50

const instant = z.iso
  .datetime({ offset: true, error: 'must be a date and time with an offset, such as 2031-05-01T00:00:00Z' })
  .refine((text) => Date.parse(text) >= EARLIEST_MS && Date.parse(text) < LATEST_MS, {
    error: 'must be an instant from 1970 up to 9998',
  })

export const usageQuery = z.object({
  bucket: z
    .enum(BUCKETS, { error: `must be one of ${BUCKETS.join(', ')}` })
    .optional()
    .meta({ description: 'Unless given: `hour` up to 48 hours, `day` up to 62 days, `week` up to 366, else `month`.' }),
  group_by: z.enum(GROUPINGS, { error: `must be one of ${GROUPINGS.join(', ')}` }).optional(),
  start: instant.optional().meta({ description: 'Inclusive. Unless given: 30 days before `end`.' }),
  end: instant.optional().meta({ description: 'Exclusive. Unless given: now.' }),
  cursor: z
    .string()
    .optional()
    .meta({ description: 'The `next_cursor` of the page before. It stands for the whole question.' }),
  limit: z.coerce
    .number({ error: `must be a whole number from 1 to ${LIMIT_MOST}` })
    .int({ error: `must be a whole number from 1 to ${LIMIT_MOST}` })
    .min(1, { error: `must be a whole number from 1 to ${LIMIT_MOST}` })
    .max(LIMIT_MOST, { error: `must be a whole number from 1 to ${LIMIT_MOST}` })
    .optional()
    .meta({ description: `Unless given: ${LIMIT_DEFAULT}.` }),
})
type UsageQuery = z.infer<typeof usageQuery>

/** The names of the parameters, for the route. */
export const USAGE_PARAMETERS: readonly string[] = Object.keys(usageQuery.shape)

const usageBucket = z
  .object({
    bucket_start: z.string().meta({ format: 'date-time' }),
    gpu_seconds: z.int().meta({ description: '0 for calls to models.' }),
    cost_cents: z
      .int()
      .meta({ description: 'The running total in whole cents at the end, less that at the start: buckets add up.' }),
    gpu_type: z.string().nullable(),
    instance_id: z.string().nullable(),
  })
  .meta({ id: 'UsageBucket' })

export const usagePage = z
  .object({
    data: z.array(usageBucket).meta({ description: 'Buckets that are not empty, oldest first.' }),
    next_cursor: z.string().nullable().meta({ description: 'Null on the last page.' }),
  })
  .meta({ id: 'UsagePage' })

/** GET /usage. */
export function showUsage(dependencies: { readonly database: Queryable; readonly clock: Clock }): Handle {
  return async (call) => {
    const read = validate(usageQuery, Object.fromEntries(call.query), 'validation_failed')
    if (!read.ok) return read.refusal
    const query = read.value
    const asked =
      query.cursor === undefined ? toQuestion(query, dependencies.clock.now()) : toCursor(query.cursor, query)
    if (!asked.ok) return asked.refusal
    const { afterMs, ...question } = { afterMs: null, ...asked.value }
    const limit = query.limit ?? LIMIT_DEFAULT
    const page = await readUsagePage(dependencies, call.key.organizationId, question, { afterMs, limit })
    const body: z.infer<typeof usagePage> = {
      data: page.buckets.map(({ startMs, cents }) => ({
        bucket_start: toTimestamp(startMs),
        gpu_seconds: 0,
        cost_cents: cents,
        gpu_type: null,
        instance_id: null,
      })),
      next_cursor: page.next === null ? null : cursorToWire(page.next),
    }
    return new Response(JSON.stringify(body), { headers: { 'Content-Type': 'application/json' } })
  }
}

function toQuestion(query: UsageQuery, nowMs: number): Result<UsageQuestion> {
  const window = windowOf(toInstant(query.start), toInstant(query.end), nowMs)
  if (window === null) return refused(invalid('start', 'must be earlier than end (unless given, end is now)'))
  if (window.startMs < EARLIEST_MS) return refused(invalid('end', 'must leave room for 30 days after 1970'))
  return ok({ ...window, bucket: query.bucket ?? defaultBucket(window), groupBy: query.group_by ?? null })
}

/** What stands beside a cursor must be what its first page was asked for. */
function toCursor(text: string, query: UsageQuery): Result<UsageCursor> {
  const cursor = cursorFromWire(text)
  if (cursor === null) return refused(invalid('cursor', 'is none that this server made; take next_cursor as it is'))
  const other = [
    ['bucket', query.bucket ?? cursor.bucket, cursor.bucket],
    ['group_by', query.group_by ?? cursor.groupBy, cursor.groupBy],
    ['start', toInstant(query.start) ?? cursor.startMs, cursor.startMs],
    ['end', toInstant(query.end) ?? cursor.endMs, cursor.endMs],
  ].find(([, asked, fixed]) => asked !== fixed)
  if (other === undefined) return ok(cursor)
  return refused(invalid('cursor', `belongs to a question with another ${other[0]}; leave ${other[0]} as it was`))
}

function toInstant(text: string | undefined): number | null {
  return text === undefined ? null : Date.parse(text)
}

function invalid(param: string, what: string): Refusal {
  return refusal('validation_failed', `'${param}' ${what}.`, { param })
}
