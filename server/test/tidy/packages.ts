import { dirname, join } from 'node:path'
import { parseSync } from 'oxc-parser'
import type { Source } from './sources.ts'

/**
 * The packages that every server loads. The others are loaded by `import()`, where the settings ask for them: Stripe's package alone
 * made each call 8 % dearer.
 */
export const PACKAGES_OF_EVERY_SERVER: readonly string[] = [
  '@noble/hashes',
  '@scure/base',
  'eventsource-parser',
  'image-size',
  'ipaddr.js',
  'pino',
  'prom-client',
  'yaml',
  'zod',
  'zod-openapi',
]

/** Returns the packages that are loaded with a file, each with the file that imports it. Types and `import()` do not count. */
export function packagesLoadedWith(entry: string, sources: readonly Source[]): Map<string, string> {
  const texts = new Map(sources.map(({ path, text }) => [path, text]))
  const packages = new Map<string, string>()
  const files = new Set([entry])
  for (const file of files) {
    for (const target of loadedBy(file, texts.get(file) ?? '')) {
      if (target.startsWith('.')) files.add(join(dirname(file), target))
      else if (!/^(node|bun)(:|$)/.test(target)) packages.set(nameOf(target), file)
    }
  }
  return packages
}

/** The modules that a file imports, or exports from, for their values. */
function loadedBy(path: string, text: string): string[] {
  const { staticImports, staticExports } = parseSync(path, text).module
  const imported = staticImports
    .filter(({ entries }) => entries.length === 0 || entries.some(({ isType }) => !isType))
    .map(({ moduleRequest }) => moduleRequest.value)
  const exported = staticExports
    .flatMap(({ entries }) => entries)
    .flatMap(({ moduleRequest, isType }) => (moduleRequest === null || isType ? [] : [moduleRequest.value]))
  return [...imported, ...exported]
}

/** The package of a module: `@scope/name` or `name`. */
function nameOf(module: string): string {
  return module
    .split('/')
    .slice(0, module.startsWith('@') ? 2 : 1)
    .join('/')
}
