import { z } from 'zod'
import { jsonAnswer } from '../../../http/jsonAnswer.ts'
import type { Handle } from '../../../http/pipeline.ts'
import type { KeyOrSession } from '../../../http/principal.ts'
import { validate } from '../../../http/validate.ts'
import type { Reads } from '../../../infra/postgres/reads.ts'
import { readCursor, writeCursor } from '../../../lib/cursor.ts'
import { type Refusal, refusal } from '../../../lib/errors.ts'
import { isUuid } from '../../../lib/ids.ts'
import { isInstant, LATEST_MS, parseTimestamp } from '../../../lib/instant.ts'
import { LIMIT_DEFAULT, listLimit } from '../../../lib/listLimit.ts'
import { MICROCENTS_PER_CENT } from '../../../lib/money.ts'
import { timestampField } from '../../../lib/queryFields.ts'
import { ok, type Result, refused } from '../../../lib/result.ts'
import { type Clock, DAY_MS, HOUR_MS, toTimestamp } from '../../../lib/time.ts'
import { type Window, windowOf } from '../bucket.ts'
import {
  type GroupNames,
  HOURLY_WINDOW_DAYS_MOST,
  parseGroupings,
  periodOf,
  type UsageGroup,
  type UsageGrouping,
  type UsageGroupings,
  type UsageSums,
  WINDOW_DAYS_MOST,
  wholeHours,
} from './group.ts'
import { readUsageGroups } from './read.ts'
import type { UsageSummer } from './sums/sumUsage.ts'

const DEFAULT_GROUPINGS: UsageGroupings = ['model']
const GROUPINGS_WORDS = 'one or two of model, key, member, tier, modality, and one of hour, day, week, month'

const instant = timestampField(0, LATEST_MS, 'from 1970 up to 9998')

export const usageGroupsQuery = z.object({
  group_by: z
    .string()
    .refine((text) => parseGroupings(text) !== null, {
      error: `must be ${GROUPINGS_WORDS}, with a comma between two, such as model,key`,
    })
    .optional()
    .meta({
      description: `One or two of \`model\`, \`key\`, \`member\`, \`tier\`, \`modality\`, and one of \`hour\`, \`day\`, \`week\`, \`month\`, with a comma between two. Default: \`model\`.`,
    }),
  start: instant.optional().meta({
    description:
      'Inclusive, rounded down to the hour. Default: the first instant of the UTC day that is 30 days before `end`.',
  }),
  end: instant.optional().meta({ description: 'Exclusive, rounded up to the hour. Default: now.' }),
  cursor: z.string().optional().meta({
    description: 'The `next_cursor` of the page before. Send `group_by`, `start` and `end` unchanged with it.',
  }),
  limit: listLimit(),
})

/** The names of the parameters, for the route. */
export const USAGE_GROUPS_PARAMETERS: readonly string[] = Object.keys(usageGroupsQuery.shape)

const SUMS = {
  requests: z.int().meta({ description: 'Calls, videos, and minutes of instances.' }),
  prompt_tokens: z.int(),
  cached_prompt_tokens: z.int(),
  completion_tokens: z.int(),
  image_count: z.int(),
  video_seconds: z.int(),
  cost_microcents: z
    .string()
    .regex(/^\d+$/)
    .meta({ description: 'Micro-cents (a millionth of a US cent), as digits.' }),
}

const uuid = z.string().meta({ format: 'uuid' })
const usageGroup = z
  .object({
    model: z.string().optional(),
    key_id: uuid.optional(),
    member_id: uuid.nullable().optional().meta({ description: 'Null: keys of the organization.' }),
    tier: z.enum(['serverless', 'economy']).optional(),
    modality: z.enum(['chat', 'embedding', 'image', 'video', 'instance']).optional(),
    period_start: z.string().optional().meta({ format: 'date-time', description: 'Of the hour, day, week or month.' }),
    ...SUMS,
  })
  .meta({ id: 'UsageGroup', description: 'It has the fields that `group_by` names, and sums.' })

export const usageGroupPage = z
  .object({
    start: z.string().meta({ format: 'date-time', description: 'The window, in whole hours.' }),
    end: z.string().meta({ format: 'date-time' }),
    total: z
      .object({ ...SUMS, cost_cents: z.int().meta({ description: 'The cost in cents, rounded down.' }) })
      .meta({ description: 'Of the whole window, on every page.' }),
    data: z.array(usageGroup).meta({ description: 'Sorted by the keys of the groups. Empty groups are left out.' }),
    next_cursor: z.string().nullable().meta({ description: 'Null on the last page.' }),
  })
  .meta({ id: 'UsageGroupPage' })

const FIELDS: Readonly<Record<UsageGrouping, keyof z.infer<typeof usageGroup>>> = {
  model: 'model',
  key: 'key_id',
  member: 'member_id',
  tier: 'tier',
  modality: 'modality',
  hour: 'period_start',
  day: 'period_start',
  week: 'period_start',
  month: 'period_start',
}

export interface UsageGroupDependencies {
  readonly reads: Reads
  readonly clock: Clock
  readonly summer: Pick<UsageSummer, 'noteAsked'>
  /** Returns the modalities of the models that are offered, by model. */
  readonly modalities: () => ReadonlyMap<string, string>
}

/** GET /manage/v1/usage. */
export function showUsageGroups(dependencies: UsageGroupDependencies): Handle<KeyOrSession> {
  const { reads, clock, summer, modalities } = dependencies
  return async (call) => {
    const query = validate(usageGroupsQuery, Object.fromEntries(call.query), 'validation_failed')
    if (!query.ok) return query.refusal
    const { group_by: groupBy, start, end, cursor, limit = LIMIT_DEFAULT } = query.value
    const groupings = (groupBy === undefined ? null : parseGroupings(groupBy)) ?? DEFAULT_GROUPINGS
    const from = cursor === undefined ? null : cursorFromWire(cursor, groupings)
    if (cursor !== undefined && from === null) return BAD_CURSOR
    const startMs = toInstant(start) ?? from?.startMs ?? null
    const asked = windowFor(groupings, startMs, toInstant(end) ?? from?.endMs ?? null, clock.now())
    if (!asked.ok) return asked.refusal
    const window = asked.value
    const { organizationId } = call.principal
    const question = { organizationId, groupings, window }
    const page = { after: from?.after ?? null, limit: limit + 1 }
    const { total, groups } = await readUsageGroups(reads, question, page, modalities())
    summer.noteAsked(organizationId, window)
    const shown = groups.slice(0, limit)
    const last = groups.length > limit ? shown.at(-1) : undefined
    const body: z.infer<typeof usageGroupPage> = {
      start: toTimestamp(window.startMs),
      end: toTimestamp(window.endMs),
      total: { ...sumsToWire(total), cost_cents: Number(total.costMicrocents / MICROCENTS_PER_CENT) },
      data: shown.map((group) => groupToWire(groupings, group)),
      next_cursor: last === undefined ? null : cursorToWire(groupings, window, last.names),
    }
    return jsonAnswer(body)
  }
}

function windowFor(
  groupings: UsageGroupings,
  startMs: number | null,
  endMs: number | null,
  nowMs: number,
): Result<Window> {
  const window = windowOf(startMs, endMs, nowMs)
  if (window === null) return refused(invalid('start', 'must be earlier than end (unless given, end is now)'))
  const whole = startMs === null ? fromMidnight(wholeHours(window)) : wholeHours(window)
  if (whole.startMs < 0) return refused(invalid('end', 'must be at least 30 days after 1970-01-01'))
  const daysMost = groupings.includes('hour') ? HOURLY_WINDOW_DAYS_MOST : WINDOW_DAYS_MOST
  if (whole.endMs - whole.startMs <= daysMost * DAY_MS) return ok(whole)
  const words = groupings.includes('hour') ? ' where usage is grouped by hour' : ''
  return refused(invalid('start', `must be at most ${daysMost} days before end${words}`))
}

/** Begins a window with its day: whole days are added up from fewer rows. */
function fromMidnight({ startMs, endMs }: Window): Window {
  return { startMs: Math.floor(startMs / DAY_MS) * DAY_MS, endMs }
}

function groupToWire(groupings: UsageGroupings, group: UsageGroup): z.infer<typeof usageGroup> {
  const named = groupings.map((grouping, index) => [FIELDS[grouping], nameToWire(grouping, group.names[index])])
  return { ...Object.fromEntries(named), ...sumsToWire(group) }
}

function nameToWire(grouping: UsageGrouping, name: string | undefined): string | null {
  return grouping === 'member' && name === '' ? null : (name ?? null)
}

function sumsToWire(sums: UsageSums) {
  return {
    requests: Number(sums.requests),
    prompt_tokens: Number(sums.promptTokens),
    cached_prompt_tokens: Number(sums.cachedPromptTokens),
    completion_tokens: Number(sums.completionTokens),
    image_count: Number(sums.imageCount),
    video_seconds: Number(sums.videoSeconds),
    cost_microcents: String(sums.costMicrocents),
  }
}

function toInstant(text: string | undefined): number | null {
  return text === undefined ? null : parseTimestamp(text)
}

/** The window is the first page's, so that the default window is the same for all pages. */
function cursorToWire(groupings: UsageGroupings, { startMs, endMs }: Window, names: GroupNames): string {
  return writeCursor(['usage', groupings.join(','), startMs, endMs, ...names, ...(names.length === 1 ? [''] : [])])
}

function cursorFromWire(text: string, groupings: UsageGroupings): (Window & { readonly after: GroupNames }) | null {
  const [list, groupBy, startMs, endMs, one, two] = readCursor(text, 6) ?? []
  if (list !== 'usage' || groupBy !== groupings.join(',') || !isHour(startMs) || !isHour(endMs)) return null
  const names = groupings.length === 1 ? [one] : [one, two]
  return names.every(isText) && groupings.every((grouping, index) => isNameOf(grouping, names[index]))
    ? { startMs, endMs, after: names }
    : null
}

function isHour(value: unknown): value is number {
  return isInstant(value) && value % HOUR_MS === 0
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

/** The database compares names as what they are. It takes no NUL in a text. */
function isNameOf(grouping: UsageGrouping, name = ''): boolean {
  if (grouping === 'key') return isUuid(name)
  if (grouping === 'member') return name === '' || isUuid(name)
  return periodOf([grouping]) === null ? !name.includes('\0') : isWrittenInstant(name)
}

function isWrittenInstant(text: string): boolean {
  const instantMs = parseTimestamp(text)
  return instantMs !== null && isInstant(instantMs)
}

const BAD_CURSOR = refusal(
  'validation_failed',
  "'cursor' is not a cursor that this server made for this list; send next_cursor and group_by unchanged.",
  { param: 'cursor' },
)

function invalid(param: string, says: string): Refusal {
  return refusal('validation_failed', `'${param}' ${says}.`, { param })
}
