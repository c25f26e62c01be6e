import type { CommandLine } from './command.ts'

/** Returns the line under a list that says that there is more, and the options that show it; empty where that was all. */
export function nextPage(args: CommandLine, cursor: string | null): string {
  if (cursor === null) return ''
  const limit = args.text('limit')
  return `There are more: add --cursor ${cursor} to see them${limit === undefined ? ', or a larger --limit' : ''}.\n`
}
