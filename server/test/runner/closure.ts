/** Finds test files, and what each brings in: by this some are skipped where a program is missing, and quick ones chosen. */

import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The test files from the checkout's root: those of `npm run test:long`, or all others. */
export async function findTests(checkout: string, { long }: { readonly long: boolean }): Promise<string[]> {
  const files: string[] = []
  for await (const file of new Bun.Glob('{server,cli}/**/*.test.ts').scan(checkout)) {
    if (!file.includes('node_modules') && file.endsWith('.long.test.ts') === long) files.push(file)
  }
  // The slowest, whole gateways and kills, are in the folders of tests: first.
  const isSlow = (file: string) => file.includes('/test/')
  return [
    ...files.filter(isSlow).sort().reverse(),
    ...files
      .filter((file) => !isSlow(file))
      .sort()
      .reverse(),
  ]
}

/** Imports of values, once those of types are taken out. */
const IMPORT = /(?:from|import)\s*\(?\s*'(\.[^']+\.ts)'/g
const TYPE_IMPORT = /^(?:import|export) type [^;']*?from '[^']+'/gm

export interface Closures {
  /** The files that `path` imports, and all that those import, with `path` itself; from the checkout's root. */
  of(path: string): ReadonlySet<string>
  textOf(path: string): string
}

/** Reads each file at most once. A file that is not there counts as empty: TypeScript tells of it. */
export function readClosures(checkout: string): Closures {
  const texts = new Map<string, string>()
  const imports = new Map<string, readonly string[]>()
  const textOf = (path: string) => {
    const known = texts.get(path)
    if (known !== undefined) return known
    let text = ''
    try {
      text = readFileSync(join(checkout, path), 'utf8')
    } catch {
      // Told by the types' check.
    }
    texts.set(path, text)
    return text
  }
  const importsOf = (path: string) => {
    let known = imports.get(path)
    if (known === undefined) {
      const text = textOf(path).replace(TYPE_IMPORT, '')
      known = [...text.matchAll(IMPORT)].map(([, target = '']) => join(dirname(path), target))
      imports.set(path, known)
    }
    return known
  }
  return {
    textOf,
    of(path) {
      const seen = new Set([path])
      for (const each of seen) for (const target of importsOf(each)) seen.add(target)
      return seen
    },
  }
}
