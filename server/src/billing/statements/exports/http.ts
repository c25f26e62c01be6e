import { z } from 'zod'
import type { Handle } from '../../../http/pipeline.ts'
import type { KeyOrSession } from '../../../http/principal.ts'
import { textStream } from '../../../http/textStream.ts'
import { validate } from '../../../http/validate.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import { type Refusal, refusal } from '../../../lib/errors.ts'
import { LATEST_MS, parseTimestamp } from '../../../lib/instant.ts'
import type { Log } from '../../../lib/log.ts'
import { timestampField } from '../../../lib/queryFields.ts'
import { ok, type Result, refused } from '../../../lib/result.ts'
import { type Clock, DAY_MS, HOUR_MS, utcDay } from '../../../lib/time.ts'
import { CHARGE_SHAPE, chargeToWire, microcentsField } from '../charges/wire.ts'
import {
  droppedRow,
  END_ROW,
  EXPORT_COLUMNS,
  EXPORT_FORMATS,
  type ExportFormat,
  type ExportRow,
  entryRow,
  headRow,
  writeRows,
} from './export.ts'
import { type ExportPage, type ExportRequest, findExportPlace, isExportStale, readExport } from './read.ts'

/** Exports open at once in a process, by key or member and by organization. Each has one short query under way at a time. */
const EXPORTS_EACH_MOST = 2
const EXPORTS_ORGANIZATION_MOST = 4

/** An export has ended by then, or is cut off; its client resumes it. */
const EXPORT_LONGEST_MS = HOUR_MS

const instant = timestampField(0, LATEST_MS, 'from 1970 up to 9998')
const DATE = /^\d{4}-\d{2}-\d{2}$/
/** A day, or its first instant; read as the instant. */
const day = z
  .string()
  .transform((text) => (DATE.test(text) ? `${text}T00:00:00Z` : text))
  .pipe(
    instant.refine((text) => (parseTimestamp(text) ?? 0) % DAY_MS === 0, {
      error: 'must be a UTC day, such as 2031-05-01, or its first instant, 2031-05-01T00:00:00Z',
    }),
  )

export const exportQuery = z.object({
  start: day.meta({ description: 'Inclusive, by posting: a UTC day, such as `2031-05-01`, or its first instant.' }),
  end: day.meta({ description: 'Exclusive, by posting: a UTC day, such as `2031-06-01`, or its first instant.' }),
  format: z
    .enum(EXPORT_FORMATS, { error: `must be one of ${EXPORT_FORMATS.join(', ')}` })
    .optional()
    .meta({ description: 'Default: `jsonl`.' }),
  after: z.uuid({ error: 'must be a UUID' }).optional().meta({
    description:
      'Resumes an export that broke off: the `id` of the last row that you have. Send `as_of` with it, and the same `start` and `end`.',
  }),
  as_of: instant.optional().meta({ description: 'With `after`: the `as_of` of the first row.' }),
})
type ExportQuery = z.infer<typeof exportQuery>

/** The names of the parameters, for the route. */
export const EXPORT_PARAMETERS: readonly string[] = Object.keys(exportQuery.shape)

const { id, ...chargeFields } = CHARGE_SHAPE
export const exportRow = z
  .object({
    type: z.string().meta({
      description:
        '`export`: the first row. `dropped_day`: charges that are kept as a sum only. `charge`. `credit`, `refund`, `adjustment`, `payment_refund` or `payment_dispute`: an entry of the ledger. `end`: the last row; without it the export is not whole.',
    }),
    amount_microcents: microcentsField.optional(),
    id: id.optional(),
    ...z.object(chargeFields).partial().shape,
    source: z.string().optional().meta({ description: 'Where an entry of the ledger comes from.' }),
    day: z.string().optional().meta({ description: 'The UTC day of admission of a `dropped_day`.' }),
    charges: z.int().optional().meta({ description: 'How many charges a `dropped_day` has.' }),
    start: z.string().optional().meta({ format: 'date-time' }),
    end: z.string().optional().meta({ format: 'date-time' }),
    as_of: z.string().optional().meta({ format: 'date-time', description: 'When the export began.' }),
  })
  .meta({ id: 'ExportRow' })

export const exportTable = z
  .string()
  .meta({ description: `The same rows, with the columns ${EXPORT_COLUMNS.join(', ')}.` })

const TYPES: Readonly<Record<ExportFormat, string>> = { jsonl: 'application/jsonl', csv: 'text/csv' }

export interface ExportDependencies {
  readonly database: Queryable
  readonly clock: Clock
  readonly log: Log
  /** Exports break off when the server is to stop: their clients resume them elsewhere. */
  readonly isStopping: () => boolean
}

/** GET /manage/v1/charges/export. */
export function showExport(dependencies: ExportDependencies): Handle<KeyOrSession> {
  const { clock, log } = dependencies
  const enter = createExportPlaces()
  return async (call) => {
    const query = validate(exportQuery, Object.fromEntries(call.query), 'validation_failed')
    if (!query.ok) return query.refusal
    const leave = enter(call.principal)
    if (leave === null) return TOO_MANY
    let isOpen = false
    try {
      const asked = await requestOf(dependencies, call.principal.organizationId, query.value)
      if (!asked.ok) return asked.refusal
      const { format = 'jsonl' } = query.value
      const close = call.holdOpen()
      const stream = textStream(writeExport(dependencies, asked.value, format, call.isStillAllowed), {
        clock,
        signal: call.request.signal,
        longestMs: EXPORT_LONGEST_MS,
        onEnd: (error) => {
          leave()
          close()
          if (error !== null) log.warn({ err: error, requestId: call.requestId }, 'an export broke off')
        },
      })
      isOpen = true
      const name = `charges-${utcDay(asked.value.startMs)}-${utcDay(asked.value.endMs)}.${format}`
      const headers = { 'Content-Type': TYPES[format], 'Content-Disposition': `attachment; filename="${name}"` }
      return new Response(stream, { headers })
    } finally {
      if (!isOpen) leave()
    }
  }
}

async function requestOf(
  { database, clock }: ExportDependencies,
  organizationId: string,
  query: ExportQuery,
): Promise<Result<ExportRequest>> {
  const [startMs, endMs] = [parseTimestamp(query.start) ?? 0, parseTimestamp(query.end) ?? 0]
  if (startMs >= endMs) return refused(invalid('start', 'must be earlier than end'))
  const nowMs = clock.now()
  if (query.after === undefined) {
    if (query.as_of !== undefined)
      return refused(invalid('as_of', 'is only for an export that is resumed; send after too'))
    return ok({ organizationId, startMs, endMs, asOfMs: nowMs, after: null })
  }
  const asOfMs = query.as_of === undefined ? null : parseTimestamp(query.as_of)
  if (asOfMs === null || asOfMs > nowMs) {
    return refused(invalid('as_of', 'must be the as_of of the first row of the export that is resumed'))
  }
  const after = await findExportPlace(database, organizationId, query.after)
  const request = { organizationId, startMs, endMs, asOfMs, after }
  if (after !== null && (after.postedAtMs < startMs || after.postedAtMs >= endMs)) {
    return refused(invalid('after', 'is a row from outside of start and end; send those of the export that broke off'))
  }
  if (after !== null && after.postedAtMs > asOfMs) {
    return refused(
      invalid('after', 'is a row that was posted after as_of; send the as_of of the export that broke off'),
    )
  }
  if (after === null || (await isExportStale(database, request))) {
    return refused(invalid('after', 'is no row of this export any more; begin it anew, without after and as_of'))
  }
  return ok(request)
}

async function* writeExport(
  { database, isStopping }: ExportDependencies,
  request: ExportRequest,
  format: ExportFormat,
  isStillAllowed: () => Promise<boolean>,
): AsyncGenerator<string, void> {
  if (request.after === null) yield writeRows(format, [headRow(request, request.asOfMs)], true)
  for await (const page of readExport(database, request)) {
    if (isStopping()) throw new Error('the server stops')
    if (!(await isStillAllowed())) throw new Error('its key may not be used any more')
    if (page.rows.length > 0) yield writeRows(format, rowsOf(page), false)
  }
  yield writeRows(format, [END_ROW], false)
}

function rowsOf(page: ExportPage): ExportRow[] {
  if (page.kind === 'dropped') return page.rows.map(droppedRow)
  if (page.kind === 'entries') return page.rows.map(entryRow)
  return page.rows.map((charge) => {
    const { id, ...fields } = chargeToWire(charge)
    return { type: 'charge', id, amount_microcents: String(-charge.costMicrocents), ...fields }
  })
}

/** Returns the function that takes a place among the open exports; null where there is none. Its result gives the place back, once. */
function createExportPlaces(): (principal: Pick<KeyOrSession, 'id' | 'organizationId'>) => (() => void) | null {
  const open = new Map<string, number>()
  const add = (name: string, change: number) => {
    const count = (open.get(name) ?? 0) + change
    if (count === 0) open.delete(name)
    else open.set(name, count)
  }
  return ({ id: caller, organizationId }) => {
    if ((open.get(caller) ?? 0) >= EXPORTS_EACH_MOST) return null
    if ((open.get(organizationId) ?? 0) >= EXPORTS_ORGANIZATION_MOST) return null
    for (const name of [caller, organizationId]) add(name, 1)
    return () => {
      for (const name of [caller, organizationId]) add(name, -1)
    }
  }
}

const TOO_MANY = refusal(
  'rate_limited',
  `At most ${EXPORTS_EACH_MOST} exports may be open at once for a key, and ${EXPORTS_ORGANIZATION_MOST} for an organization. Read one to its end, or close it.`,
  { retryAfterSeconds: 5 },
)

function invalid(param: string, says: string): Refusal {
  return refusal('validation_failed', `'${param}' ${says}.`, { param })
}
