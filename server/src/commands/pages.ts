import { table } from '../lib/table.ts'
import { type CommandResult, type Invocation, type OptionSpec, UsageFailure } from './command.ts'
import type { CommandContext } from './context.ts'
import { LIMIT_OPTION, limitOf } from './window.ts'

/** Lists by pages, the newest rows first, and all of them as a stream: however many rows there are, one page is in memory. */

export const PAGE_OPTIONS: readonly OptionSpec[] = [
  LIMIT_OPTION,
  { name: 'after', value: 'ID', summary: 'the next page: behind the row with this id' },
  { name: 'all', value: null, summary: 'print every row, page by page' },
]

const PAGE_OF_ALL = 1_000
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export interface PagedList<Row extends { readonly id: string }> {
  /** Reads at most `atMost` rows, from the one after `afterId` on; null: from the first on. */
  readonly read: (afterId: string | null, atMost: number) => Promise<readonly Row[]>
  readonly toJson: (row: Row) => object
  readonly heading: readonly string[]
  readonly cells: (row: Row) => readonly string[]
  /** The sentence for a list without rows. */
  readonly none: string
}

/** Shows the page that the options name, or prints all pages. Throws `UsageFailure` for options that can't be used. */
export async function showPages<Row extends { readonly id: string }>(
  invocation: Invocation,
  context: CommandContext,
  list: PagedList<Row>,
): Promise<CommandResult> {
  const after = invocation.text('after') ?? null
  if (after !== null && !ID.test(after))
    throw new UsageFailure(`--after "${after}" is not an id: use the last id of a page`)
  if (invocation.flag('all')) {
    if (invocation.text('limit') !== undefined) throw new UsageFailure('give --limit N or --all, not both')
    return await printAll(invocation, context, list, after)
  }
  const limit = limitOf(invocation)
  const found = await list.read(after, limit + 1)
  const rows = found.slice(0, limit)
  const last = found.length > limit ? rows.at(-1) : undefined
  const more = last === undefined ? '' : `There are more: add --after ${last.id}, or --all.`
  // The array has no room to say it.
  if (invocation.json && last !== undefined)
    context.stderr(`${JSON.stringify({ notice: { code: 'more', message: more, after: last.id } })}\n`)
  return { json: rows.map(list.toJson), text: `${textOf(list, rows, context)}${more === '' ? '' : `${more}\n`}` }
}

async function printAll<Row extends { readonly id: string }>(
  { json }: Invocation,
  context: CommandContext,
  list: PagedList<Row>,
  firstAfter: string | null,
): Promise<CommandResult> {
  let after = firstAfter
  let isFirst = true
  for (;;) {
    const rows = await list.read(after, PAGE_OF_ALL)
    if (json) {
      const entries = rows.map((row) => JSON.stringify(list.toJson(row))).join(',\n')
      await context.print(isFirst ? `[${entries}` : rows.length === 0 ? '' : `,\n${entries}`)
    } else if (isFirst || rows.length > 0) await context.print(textOf(list, rows, context))
    isFirst = false
    after = rows.at(-1)?.id ?? null
    if (rows.length < PAGE_OF_ALL || after === null) break
  }
  if (json) await context.print(']\n')
  return { exitCode: 0 }
}

function textOf<Row extends { readonly id: string }>(
  list: PagedList<Row>,
  rows: readonly Row[],
  { stdoutColumns }: CommandContext,
): string {
  return table(
    list.heading,
    rows.map((row) => [...list.cells(row)]),
    list.none,
    stdoutColumns,
  )
}
