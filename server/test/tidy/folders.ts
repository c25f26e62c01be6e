import { basename, dirname } from 'node:path'
import type { Graph } from './imports.ts'
import { isTest, type Source } from './sources.ts'

const ROOT = 'server/src/'

/**
 * Returns the pairs of folders that import each other, such as `a ↔ a/b`, with how many imports each way has.
 */
export function mutualFolders(graph: Graph): Map<string, string> {
  const counts = new Map<string, number>()
  for (const [from, targets] of graph) {
    for (const to of targets) {
      const way = `${dirname(from)} → ${dirname(to)}`
      counts.set(way, (counts.get(way) ?? 0) + 1)
    }
  }
  const pairs = new Map<string, string>()
  for (const [way, there] of [...counts].sort()) {
    const [from = '', to = ''] = way.split(' → ')
    const back = counts.get(`${to} → ${from}`)
    if (from < to && back !== undefined) pairs.set(`${from} ↔ ${to}`, `${there} and ${back} imports`)
  }
  return pairs
}

/** A folder with fewer files needs no README of its own. */
const FILES_TO_TELL = 3

/**
 * Returns the folders of `server/src` with more than two files (tests left out) whose README is missing or does not name
 * each of them, with the files that it does not name. A path such as `queue/store.ts` is not the name of `store.ts`.
 */
export function untoldFolders(sources: readonly Source[]): Map<string, string[]> {
  const folders = new Map<string, string[]>()
  for (const { path } of sources) {
    if (!path.startsWith(ROOT) || !path.endsWith('.ts') || isTest(path)) continue
    const folder = dirname(path)
    folders.set(folder, [...(folders.get(folder) ?? []), basename(path)])
  }
  const texts = new Map(sources.map(({ path, text }) => [path, text]))
  const untold = new Map<string, string[]>()
  for (const [folder, files] of folders) {
    if (files.length < FILES_TO_TELL) continue
    const readme = texts.get(`${folder}/README.md`)
    const missing = files.filter((file) => readme === undefined || !isNamed(file, readme))
    if (missing.length > 0) untold.set(folder.slice(ROOT.length), missing)
  }
  return untold
}

function isNamed(file: string, readme: string): boolean {
  return new RegExp(`(?<![\\w/.-])${file.replaceAll('.', '\\.')}(?!\\w)`).test(readme)
}

/** Such as "It imports no other folder of accounts but `../secrets/`." A folder beneath it is its own. */
const ALONE = /It imports no other folder of [\w ]+?(?: but `\.\.\/(\w+)\/`)?\./

/** Returns the READMEs that say so while a file of their folder imports another folder beside it, or none needs the named one. */
export function falseAlone(sources: readonly Source[], graph: Graph): string[] {
  return sources.flatMap(({ path, text }) => {
    const said = path.startsWith(ROOT) && path.endsWith('/README.md') ? ALONE.exec(text.replaceAll(/\s+/g, ' ')) : null
    if (said === null) return []
    const folder = `${dirname(path).slice(ROOT.length)}/`
    const parent = `${dirname(folder)}/`
    const inner = [...graph].filter(([from]) => from.startsWith(folder)).flatMap(([, targets]) => targets)
    const others = inner.filter((to) => to.startsWith(parent) && !to.startsWith(folder))
    const found = [...new Set(others.map((to) => to.slice(parent.length).split('/')[0]))]
    return found.join() === (said[1] ?? '') ? [] : [`${path} (${found.sort().join(', ')})`]
  })
}

const NAMED = /`(?:\.\.\/)*((?:[\w-]+\/)*[\w-]+(?:\.[\w-]+)*\.(?:ts|sql))`/g

/** Returns the files that READMEs of the server name and that are not there, as `README (file)`. A path may begin anywhere. */
export function goneFiles(sources: readonly Source[]): string[] {
  const paths = sources.map(({ path }) => `/${path}`)
  const isThere = (file: string) => paths.some((path) => path.endsWith(`/${file}`))
  return sources
    .filter(({ path }) => path.startsWith('server/') && path.endsWith('/README.md'))
    .flatMap(({ path, text }) => {
      const names = [...text.matchAll(NAMED)].map(([, name = '']) => name)
      return names.filter((name) => !isThere(name)).map((name) => `${path} (${name})`)
    })
}
