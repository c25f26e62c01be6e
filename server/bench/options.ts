/** Reads the bench commands' options; each command lists the ones it knows. */
import { parseArgs } from 'node:util'
import { TARGET_NAMES, type TargetName } from './session.ts'

/** Options given as `--name value`; `defaults` lists every one that the command takes. Exits with the usage when wrong. */
export function readOptions(
  usage: string,
  defaults: Readonly<Record<string, string>>,
  flags: readonly string[],
): { text: Record<string, string>; flags: Record<string, boolean> } {
  const known = {
    ...Object.fromEntries(Object.keys(defaults).map((name) => [name, { type: 'string' } as const])),
    ...Object.fromEntries([...flags, 'help'].map((name) => [name, { type: 'boolean' } as const])),
  }
  try {
    const { values } = parseArgs({ args: process.argv.slice(2), options: known, strict: true })
    if (values['help'] !== true) {
      const text = Object.fromEntries(
        Object.entries(defaults).map(([name, value]) => [name, String(values[name] ?? value)]),
      )
      return { text, flags: Object.fromEntries(flags.map((name) => [name, values[name] === true])) }
    }
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error))
  }
  console.error(usage)
  process.exit(2)
}

/** A whole number of at least 1, or an end with a sentence about the option. */
export function atLeastOne(name: string, text: string | undefined): number {
  const value = Number(text)
  if (Number.isInteger(value) && value >= 1) return value
  console.error(`--${name} must be a whole number of at least 1, not '${text}'`)
  process.exit(2)
}

/** `a,b` as target names. */
export function targetNames(text: string | undefined): TargetName[] {
  const names = (text ?? '').split(',').filter((name) => name !== '')
  const unknown = names.find((name) => !TARGET_NAMES.includes(name as TargetName))
  if (unknown === undefined) return names as TargetName[]
  console.error(`--only takes ${TARGET_NAMES.join(', ')}, separated by commas; not '${unknown}'`)
  process.exit(2)
}
