import { parseSync } from 'oxc-parser'
import type { Source } from './sources.ts'

/** The names that a TypeScript file exports, each once; a name that is passed on from another file counts too. */
function exportsOf({ path, text }: Source): string[] {
  const { module } = parseSync(path, text)
  const names = module.staticExports.flatMap(({ entries }) => entries.map(({ exportName }) => exportName.name))
  return [...new Set(names)].filter((name) => name !== null)
}

/** Returns each name that more than one of the files exports, with these files. */
export function severalOwners(sources: readonly Source[]): Map<string, string[]> {
  const owners = new Map<string, string[]>()
  for (const source of sources) {
    for (const name of exportsOf(source)) owners.set(name, [...(owners.get(name) ?? []), source.path])
  }
  return new Map([...owners].filter(([, paths]) => paths.length > 1))
}
