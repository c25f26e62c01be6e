import type { Queryable } from '../../../infra/postgres/database.ts'
import { instantOfUuid, isUuid } from '../../../lib/ids.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../lib/time.ts'
import type { ChargePlace, PostedCharge } from '../charges/charge.ts'
import { readPostedCharges } from '../charges/read.ts'
import type { DroppedCharges, ExportedEntry, ExportWindow } from './export.ts'
import {
  findChargeInstant,
  findEntryInstant,
  listLateDays,
  readDroppedCharges,
  readDrops,
  readEntries,
} from './store.ts'

/** Rows a query: a few milliseconds of the database, and 400 KB here. */
const EXPORT_PAGE = 1_000

/** A charge may be posted before its admission where the clocks of processes differ, or one was set. */
const CLOCK_SLACK_MS = HOUR_MS

/** The clock of the process that drops a day may differ from this one's. */
const DROP_SLACK_MS = MINUTE_MS

export interface ExportRequest extends ExportWindow {
  /** When the export began, in milliseconds since the epoch: it has nothing that was posted after this millisecond. */
  readonly asOfMs: number
  /** The last row that the client has; null: none. */
  readonly after: ExportPlace | null
}

/** A row that an export goes on behind. */
export type ExportPlace =
  | { readonly kind: 'entry'; readonly postedAtMs: number; readonly id: string }
  | ({ readonly kind: 'charge'; readonly postedAtMs: number } & ChargePlace)

export type ExportPage =
  | { readonly kind: 'dropped'; readonly rows: readonly DroppedCharges[] }
  | { readonly kind: 'entries'; readonly rows: readonly ExportedEntry[] }
  | { readonly kind: 'charges'; readonly rows: readonly PostedCharge[] }

/** Returns the place of a row by its id; null where the organization has no such row, or has it no more. */
export async function findExportPlace(
  database: Queryable,
  organizationId: string,
  id: string,
): Promise<ExportPlace | null> {
  if (!isUuid(id)) return null
  const postedAtMs = await findEntryInstant(database, organizationId, id)
  if (postedAtMs !== null) return { kind: 'entry', postedAtMs, id }
  const admittedAtMs = instantOfUuid(id)
  if (admittedAtMs === null) return null
  const chargePostedAtMs = await findChargeInstant(database, organizationId, id, admittedAtMs)
  return chargePostedAtMs === null ? null : { kind: 'charge', postedAtMs: chargePostedAtMs, admittedAtMs, id }
}

/** Returns whether retention has dropped charges of an export since it began: its rows no longer add up then. */
export async function isExportStale(database: Queryable, request: ExportRequest): Promise<boolean> {
  const { lastAtMs } = await readDrops(database, request)
  return lastAtMs !== null && lastAtMs >= request.asOfMs - DROP_SLACK_MS
}

/**
 * Reads everything that was posted in a window, page by page: sums of dropped days, entries of the ledger in the order of their posting,
 * charges in the order of their admission. No page is read before it is asked for. Throws at the end where retention has dropped some of it
 * meanwhile.
 */
export async function* readExport(database: Queryable, request: ExportRequest): AsyncGenerator<ExportPage, void> {
  const { after } = request
  const dropsBefore = await readDrops(database, request)
  if (after === null) yield { kind: 'dropped', rows: await readDroppedCharges(database, request) }
  if (after?.kind !== 'charge') yield* readEntryPages(database, request, after)
  yield* readChargePages(database, request, after?.kind === 'charge' ? after : null)
  const drops = await readDrops(database, request)
  if (drops.times !== dropsBefore.times) throw new Error('charges of the export were dropped while it was read')
}

async function* readEntryPages(
  database: Queryable,
  request: ExportRequest,
  first: { readonly postedAtMs: number; readonly id: string } | null,
): AsyncGenerator<ExportPage, void> {
  const window = { ...request, endMs: Math.min(request.endMs, request.asOfMs + 1) }
  for (let after = first; ; ) {
    const rows = await readEntries(database, window, after, EXPORT_PAGE)
    yield { kind: 'entries', rows }
    const last = rows.at(-1)
    if (last === undefined || rows.length < EXPORT_PAGE) return
    after = last
  }
}

/** First the days of admission before the window, of each of which few charges were posted late; then those of the window. */
async function* readChargePages(
  database: Queryable,
  request: ExportRequest,
  first: ChargePlace | null,
): AsyncGenerator<ExportPage, void> {
  const { organizationId, startMs } = request
  const posted = { startMs, endMs: Math.min(request.endMs, request.asOfMs + 1) }
  const lateDays = (await listLateDays(database, { organizationId, ...posted })).map((day) => {
    const dayMs = Date.parse(`${day}T00:00:00Z`)
    return { startMs: dayMs, endMs: dayMs + DAY_MS }
  })
  for (const admitted of [...lateDays, { startMs, endMs: posted.endMs + CLOCK_SLACK_MS }]) {
    if (first !== null && first.admittedAtMs >= admitted.endMs) continue
    for (let after = first; ; ) {
      const rows = await readPostedCharges(database, { organizationId, admitted, posted }, after, EXPORT_PAGE)
      yield { kind: 'charges', rows }
      const last = rows.at(-1)
      if (last === undefined || rows.length < EXPORT_PAGE) break
      after = last
    }
  }
}
