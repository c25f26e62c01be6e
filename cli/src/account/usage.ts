import { MICROCENTS_PER_CENT } from '../../../server/src/lib/money.ts'
import { shortInstant, table } from '../../../server/src/lib/table.ts'
import { callApi } from '../api.ts'
import type { CliCommand, CliResult, CommandLine } from '../command.ts'
import { UsageMistake } from '../failure.ts'
import { nextPage } from '../nextPage.ts'
import type { System } from '../system.ts'
import { isTimeAgo, pastTimestampOf, wholeNumberOf } from '../values.ts'
import { dollars } from './balance.ts'

const BUCKETS = ['hour', 'day', 'week', 'month'] as const
/** Of a page of the server's. */
const USAGE_MAX = 200

/** The management interface's words for what a row is of; at most two. */
const GROUPINGS = 'model, key, member, tier, modality, hour, day, week or month'

/** The groups of rented instances, with the heading of each. GET /usage knows them, and has a row for each bucket. */
const INSTANCE_COLUMNS = { instance_id: 'INSTANCE', gpu_type: 'GPU TYPE' } as const
type InstanceGrouping = keyof typeof INSTANCE_COLUMNS

const NOTHING_USED = 'Nothing was used in this time.'

/** The fields by which usage is grouped, and the heading of each, in the order of the columns. */
const NAME_COLUMNS = {
  period_start: 'FROM (UTC)',
  model: 'MODEL',
  key_id: 'KEY',
  member_id: 'MEMBER',
  tier: 'TIER',
  modality: 'MODALITY',
} as const

interface UsageSums {
  readonly requests: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly cost_microcents: string
}

type UsageGroup = UsageSums & Readonly<Partial<Record<keyof typeof NAME_COLUMNS, string | null>>>

interface UsageGroupPage {
  readonly start: string
  readonly end: string
  readonly data: readonly UsageGroup[]
  readonly total: UsageSums
  readonly next_cursor: string | null
}

interface UsagePage {
  readonly data: readonly {
    readonly bucket_start: string
    readonly cost_cents: number
    readonly gpu_seconds: number
    /** Null: calls to models. */
    readonly instance_id: string | null
    readonly gpu_type: string | null
  }[]
  readonly next_cursor: string | null
}

/** `tollgate usage` */
export const usageCommand: CliCommand = {
  words: ['usage'],
  summary: "Show the organization's cost by hour, day, week or month, or by model, key, instance and the like",
  options: [
    {
      name: 'bucket',
      value: 'SIZE',
      summary: 'of a row; by the length of the time when left out',
      choices: BUCKETS,
    },
    {
      name: 'group-by',
      value: 'WORDS',
      summary: `in place of --bucket: one of ${GROUPINGS}, or two with a comma between them, such as model,key; beside --bucket: instance_id or gpu_type`,
    },
    {
      name: 'start',
      value: 'WHEN',
      summary: 'from: a time ago (7d) or an ISO date; 30 days before the end when left out',
    },
    { name: 'end', value: 'WHEN', summary: 'up to, and without: a time ago or an ISO date; now when left out' },
    { name: 'limit', value: 'N', summary: `how many, up to ${USAGE_MAX}; 50 when left out` },
    { name: 'cursor', value: 'CURSOR', summary: 'the `next_cursor` of the page before' },
  ],
  examples: [
    'tollgate usage --start 7d',
    'tollgate usage --group-by model,key',
    'tollgate usage --group-by instance_id --start 7d',
    'tollgate usage --bucket month --start 2031-01-01 --json',
  ],
  run: async (args, system) => {
    const nowMs = system.clock.now()
    const limit = wholeNumberOf(args, 'limit', USAGE_MAX)
    const given = {
      bucket: args.text('bucket'),
      start: pastTimestampOf(args, 'start', nowMs),
      end: pastTimestampOf(args, 'end', nowMs),
      limit: limit === undefined ? undefined : String(limit),
      cursor: args.text('cursor'),
    }
    // Both are in UTC and as long as each other.
    if (given.start !== undefined && given.end !== undefined && given.start >= given.end) {
      throw new UsageMistake(
        '--start: must be earlier than --end; a length of time such as 7d means so long ago, so that 8d is earlier than 7d',
      )
    }
    const groupBy = args.text('group-by')
    if (isInstanceGrouping(groupBy))
      return await showInstanceGroups(args, system, groupBy, queryOf(withoutTimesAgo(args, given)))
    if (groupBy !== undefined) {
      if (given.bucket !== undefined)
        throw new UsageMistake('--group-by: takes the place of --bucket, give one of them')
      return await showGroups(args, system, queryOf({ ...groupWindowOf(args, given), group_by: groupBy }))
    }
    const path = `/v1/usage?${queryOf(withoutTimesAgo(args, given))}`
    const page = (await callApi(args, system, { method: 'GET', path })) as UsagePage
    const rows = page.data.map((bucket) => [shortInstant(bucket.bucket_start), centsOf(bucket.cost_cents)])
    return {
      json: page,
      text: table(['FROM (UTC)', 'COST'], rows, NOTHING_USED, system.stdoutColumns) + nextPage(args, page.next_cursor),
    }
  },
}

interface Given {
  readonly start: string | undefined
  readonly end: string | undefined
  readonly cursor: string | undefined
}

/** The cursor has the window of its first page, and a time ago is another instant by now. A date is sent, so that another one is refused. */
function withoutTimesAgo<T extends Given>(args: CommandLine, given: T): T {
  if (given.cursor === undefined) return given
  const kept = (name: 'start' | 'end') => (isTimeAgo(args.text(name)) ? undefined : given[name])
  return { ...given, start: kept('start'), end: kept('end') }
}

/** The cursor of groups has the end of its first page's window alone. */
function groupWindowOf<T extends Given>(args: CommandLine, given: T): T {
  if (given.cursor === undefined || !isTimeAgo(args.text('start'))) return withoutTimesAgo(args, given)
  throw new UsageMistake(
    '--start: beside --cursor must be the date that the page before began at: under that page, or its "start" with --json',
  )
}

function queryOf(given: Readonly<Record<string, string | undefined>>): URLSearchParams {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(given)) if (value !== undefined) query.set(name, value)
  return query
}

function isInstanceGrouping(groupBy: string | undefined): groupBy is InstanceGrouping {
  return groupBy !== undefined && Object.hasOwn(INSTANCE_COLUMNS, groupBy)
}

async function showInstanceGroups(
  args: CommandLine,
  system: System,
  groupBy: InstanceGrouping,
  query: URLSearchParams,
): Promise<CliResult> {
  query.set('group_by', groupBy)
  const page = (await callApi(args, system, { method: 'GET', path: `/v1/usage?${query}` })) as UsagePage
  const rows = page.data.map((row) => [
    shortInstant(row.bucket_start),
    row[groupBy] ?? 'calls to models',
    String(row.gpu_seconds),
    centsOf(row.cost_cents),
  ])
  const heading = ['FROM (UTC)', INSTANCE_COLUMNS[groupBy], 'GPU SECONDS', 'COST']
  const shown = table(heading, rows, NOTHING_USED, system.stdoutColumns)
  return { json: page, text: shown + nextPage(args, page.next_cursor) }
}

async function showGroups(args: CommandLine, system: System, query: URLSearchParams): Promise<CliResult> {
  const path = `/manage/v1/usage?${query}`
  const page = (await callApi(args, system, { method: 'GET', path })) as UsageGroupPage
  const [first] = page.data
  const names = (Object.keys(NAME_COLUMNS) as (keyof typeof NAME_COLUMNS)[]).filter(
    (name) => first?.[name] !== undefined,
  )
  const heading = [...names.map((name) => NAME_COLUMNS[name]), 'REQUESTS', 'TOKENS IN', 'TOKENS OUT', 'COST']
  const rows = page.data.map((group) => [...names.map((name) => nameOf(name, group[name])), ...sumsOf(group)])
  const shown = table(heading, rows, NOTHING_USED, system.stdoutColumns)
  const total = first === undefined ? '' : `Total: ${costOfMicrocents(BigInt(page.total.cost_microcents))}.\n`
  const window = ['--start', page.start, '--end', page.end]
  return { json: page, text: shown + total + nextPage(args, page.next_cursor, window) }
}

function nameOf(column: keyof typeof NAME_COLUMNS, name: string | null | undefined): string {
  // Of members alone: keys of the organization.
  if (name === null || name === undefined) return 'organization'
  return column === 'period_start' ? shortInstant(name) : name
}

function sumsOf({ requests, prompt_tokens: input, completion_tokens: output, cost_microcents: cost }: UsageSums) {
  return [String(requests), String(input), String(output), costOfMicrocents(BigInt(cost))]
}

/** Whole cents, rounded down as the server does; below a cent tenths of one, such as `$0.003`. */
function costOfMicrocents(microcents: bigint): string {
  if (microcents >= MICROCENTS_PER_CENT) return dollars(Number(microcents / MICROCENTS_PER_CENT))
  const tenths = microcents / (MICROCENTS_PER_CENT / 10n)
  if (tenths > 0n) return `$0.00${tenths}`
  return microcents > 0n ? 'below $0.001' : '$0.00'
}

/** The server leaves out buckets in which nothing was used: one of no cents has cost less than a cent, or nothing. */
function centsOf(cents: number): string {
  return cents === 0 ? 'below $0.01' : dollars(cents)
}
