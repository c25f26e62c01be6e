/** Exports: what is in them, and how their rows are written. Pure. Amounts are micro-cents. */

import { toTimestamp } from '../../../lib/time.ts'

export const EXPORT_FORMATS = ['jsonl', 'csv'] as const
export type ExportFormat = (typeof EXPORT_FORMATS)[number]

/** An organization's whole UTC days of posting: from `startMs` up to, and without, `endMs`, in milliseconds since the epoch. */
export interface ExportWindow {
  readonly organizationId: string
  readonly startMs: number
  readonly endMs: number
}

/** The charges of one model that retention has dropped with their day of admission. */
export interface DroppedCharges {
  /** Of admission, `YYYY-MM-DD`. */
  readonly day: string
  readonly model: string
  readonly tier: string
  readonly charges: bigint
  readonly costMicrocents: bigint
}

/** A movement of money that is no charge. */
export interface ExportedEntry {
  readonly id: string
  readonly postedAtMs: number
  readonly kind: string
  readonly source: string
  readonly amountMicrocents: bigint
}

/** A row as it is written: fields that it does not have are left out. */
export type ExportRow = { readonly type: string } & Readonly<
  Partial<Record<(typeof EXPORT_COLUMNS)[number], string | number | boolean | undefined>>
>

/** The fields of all rows, in the order of the columns of CSV. */
export const EXPORT_COLUMNS = [
  'type',
  'id',
  'posted_at',
  'amount_microcents',
  'source',
  'admitted_at',
  'key_id',
  'model',
  'tier',
  'modality',
  'prompt_tokens',
  'cached_prompt_tokens',
  'completion_tokens',
  'image_count',
  'video_seconds',
  'instance_id',
  'gpu_count',
  'instance_seconds',
  'estimated',
  'covered',
  'outcome',
  'day',
  'charges',
  'start',
  'end',
  'as_of',
] as const

/** The first row: what the export is of. */
export function headRow({ startMs, endMs }: ExportWindow, asOfMs: number): ExportRow {
  return { type: 'export', start: toTimestamp(startMs), end: toTimestamp(endMs), as_of: toTimestamp(asOfMs) }
}

/** The last row: an export without it is not whole. */
export const END_ROW: ExportRow = { type: 'end' }

export function droppedRow({ day, model, tier, charges, costMicrocents }: DroppedCharges): ExportRow {
  return { type: 'dropped_day', amount_microcents: String(-costMicrocents), model, tier, day, charges: Number(charges) }
}

export function entryRow({ id, postedAtMs, kind, source, amountMicrocents }: ExportedEntry): ExportRow {
  return { type: kind, id, posted_at: toTimestamp(postedAtMs), amount_microcents: String(amountMicrocents), source }
}

/** Writes rows as lines. Those of CSV begin with the names of the columns where `isFirst`. */
export function writeRows(format: ExportFormat, rows: readonly ExportRow[], isFirst: boolean): string {
  if (format === 'jsonl') return rows.map((row) => `${JSON.stringify(row)}\n`).join('')
  const lines = rows.map((row) => `${EXPORT_COLUMNS.map((column) => csvField(row[column])).join(',')}\r\n`)
  return (isFirst ? `${EXPORT_COLUMNS.join(',')}\r\n` : '') + lines.join('')
}

/** RFC 4180. */
function csvField(value: string | number | boolean | undefined): string {
  const text = value === undefined ? '' : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
