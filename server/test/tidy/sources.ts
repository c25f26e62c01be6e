import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'

export const CHECKOUT = join(import.meta.dirname, '../../..')

/** A text file of the checkout. */
export interface Source {
  /** From the checkout's root, with slashes. */
  readonly path: string
  readonly text: string
}

const NOT_OURS = new Set(['node_modules', '.git', '.tollgate', 'results', 'dist', 'package-lock.json'])
const TEXT = /\.(ts|mjs|json|jsonc|md|sql|yaml|sh)$|^(\.ci\/run|\.gitignore)$/

/** Every text file of a checkout that is ours. */
export function readSources(checkout: string = CHECKOUT): Source[] {
  const sources: Source[] = []
  const walk = (folder: string) => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (NOT_OURS.has(entry.name)) continue
      const full = join(folder, entry.name)
      const path = relative(checkout, full)
      if (entry.isDirectory()) walk(full)
      else if (TEXT.test(path)) sources.push({ path, text: readFileSync(full, 'utf8') })
    }
  }
  walk(checkout)
  return sources.sort((a, b) => (a.path < b.path ? -1 : 1))
}

export function isTest(path: string): boolean {
  return path.endsWith('.test.ts')
}

/** TypeScript without comments and types, so that words in them are no finding. */
export function codeOf({ text }: Source): string {
  return new Bun.Transpiler({ loader: 'ts', target: 'bun', deadCodeElimination: false }).transformSync(text)
}

/** `path:line` of the first line that holds `words`. */
export function placeOf({ path, text }: Source, words: string): string {
  const line = text.split('\n').findIndex((each) => each.includes(words))
  return line < 0 ? path : `${path}:${line + 1}`
}
