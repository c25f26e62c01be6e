import { dirname, join } from 'node:path'
import { isTest, type Source } from './sources.ts'

/** The files of `server/src` (tests left out) by path from there, each with the files that it imports. */
export type Graph = ReadonlyMap<string, readonly string[]>

const ROOT = 'server/src/'
const IMPORT = /(?:from|import)\s*\(?\s*'(\.[^']+)'/g

/** Reads the imports, those of types too. */
export function importGraph(sources: readonly Source[]): Graph {
  const graph = new Map<string, readonly string[]>()
  for (const { path, text } of sources) {
    if (!path.startsWith(ROOT) || !path.endsWith('.ts') || isTest(path)) continue
    const own = path.slice(ROOT.length)
    graph.set(
      own,
      [...text.matchAll(IMPORT)].map(([, target = '']) => join(dirname(own), target)),
    )
  }
  return graph
}

/** Files that import one another in a ring, a path through each; empty when there is none. */
export function findCycles(graph: Graph): string[] {
  const cycles: string[] = []
  const done = new Set<string>()
  const walk = (path: string, trail: readonly string[]) => {
    const at = trail.indexOf(path)
    if (at >= 0) cycles.push([...trail.slice(at), path].join(' → '))
    if (at >= 0 || done.has(path)) return
    for (const target of graph.get(path) ?? []) walk(target, [...trail, path])
    done.add(path)
  }
  for (const path of graph.keys()) walk(path, [])
  return cycles
}

/** Returns whether a file is pure: it reaches only `lib/` and other pure files. */
export function isPure(graph: Graph, path: string, seen: ReadonlySet<string> = new Set()): boolean {
  if (path.startsWith('lib/') || seen.has(path)) return true
  if (path.startsWith('infra/') || path.endsWith('/store.ts') || path.endsWith('/http.ts')) return false
  const withThis = new Set([...seen, path])
  return (graph.get(path) ?? []).every((target) => isPure(graph, target, withThis))
}
