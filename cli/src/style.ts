import type { System } from './system.ts'

/** Returns text in a dim colour for a terminal on stderr, as it is where there is none or NO_COLOR is set. */
export function dim({ environment, stderrIsTerminal }: System, text: string): string {
  const isPlain = (environment['NO_COLOR'] ?? '') !== '' || environment['TERM'] === 'dumb' || !stderrIsTerminal
  return isPlain ? text : `\u001b[2m${text}\u001b[22m`
}
