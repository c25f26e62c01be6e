import type { CommandLine } from './command.ts'

/**
 * Returns the line under a list that says that there is more, and the options that show it; empty where that was all. `beside`: options
 * that the next page needs too. Where they were typed before, the last ones count.
 */
export function nextPage(args: CommandLine, cursor: string | null, beside: readonly string[] = []): string {
  if (cursor === null) return ''
  const limit = args.text('limit')
  return `There are more: add ${['--cursor', cursor, ...beside].join(' ')} to see them${limit === undefined ? ', or a larger --limit' : ''}.\n`
}
