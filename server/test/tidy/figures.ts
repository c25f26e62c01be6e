/**
 * Prints the figures of the house, a line each:
 * `npx bun server/test/tidy/figures.ts [CHECKOUT]`. Without an argument it reads the checkout that it stands in. The order of
 * imports is that of the checkout's own `server/test/tidy/house.ts`; `?` where that has none.
 */

import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { severalOwners } from './exports.ts'
import { mutualFolders } from './folders.ts'
import { LINES_OF_FUNCTION, longFunctions, type Part, partOf } from './functions.ts'
import { type Graph, importGraph } from './imports.ts'
import { citedCodes, definedCodes, RULES_PAGE } from './rules.ts'
import { CHECKOUT, readSources, type Source } from './sources.ts'

const ROOT = 'server/src/'
const PARTS: readonly Part[] = ['source', 'tests', 'benches']

/** The rules of a checkout that figures depend on. An old checkout may lack some. */
interface House {
  readonly breaksOrder?: (from: string, to: string) => boolean
  readonly KEPT_NAMES?: Readonly<Record<string, string>>
}

async function readHouse(checkout: string): Promise<House> {
  const files = ['house.ts', 'today.ts'].map((name) => join(checkout, 'server/test/tidy', name)).filter(existsSync)
  const modules = await Promise.all(files.map((file) => import(file)))
  return Object.assign({}, ...modules)
}

const linesOf = ({ text }: Source) => text.split('\n').length - 1

const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, each) => sum + each, 0)

/** Folders of `server/src`, and files beside them. */
function headroomOf(graph: Graph): string[] {
  return [...new Set([...graph.keys()].map((path) => path.split('/')[0] ?? path))].sort()
}

function unresolvedCodes(sources: readonly Source[]): { codes: Set<string>; citations: number } {
  const defined = new Set(definedCodes(sources.find(({ path }) => path === RULES_PAGE)?.text ?? ''))
  const unresolved = sources.flatMap(citedCodes).filter(({ code }) => !defined.has(code))
  return { codes: new Set(unresolved.map(({ code }) => code)), citations: unresolved.length }
}

/** Returns the figures in the order in which they are printed. */
function figuresOf(sources: readonly Source[], { breaksOrder, KEPT_NAMES = {} }: House): [string, string][] {
  const typeScript = sources.filter(({ path }) => path.startsWith('server/') && path.endsWith('.ts'))
  const inPart = (part: Part) => typeScript.filter(({ path }) => partOf(path) === part)
  const graph = importGraph(sources)
  const rooms = headroomOf(graph)
  const long = longFunctions(typeScript)
  const owners = [...severalOwners(inPart('source')).keys()]
  const { codes, citations } = unresolvedCodes(sources)
  const imports = [...graph].flatMap(([from, targets]) => targets.map((to) => [from, to] as const))
  const against = breaksOrder === undefined ? '?' : imports.filter(([from, to]) => breaksOrder(from, to)).length
  const longest = [...inPart('source')].sort((a, b) => linesOf(b) - linesOf(a))[0]
  const counts = PARTS.map((part) => `${long[part].size} of ${part}`)
  const sizes = PARTS.map((part) => `${sumOf(inPart(part).map(linesOf))} of ${part}`)
  return [
    ['rooms at the top', `${rooms.length} (${rooms.join(', ')})`],
    [`functions over ${LINES_OF_FUNCTION} lines`, counts.join(', ')],
    ['names with several owners', `${owners.length}, of them ${owners.filter((name) => KEPT_NAMES[name]).length} kept`],
    ['unresolved codes', `${codes.size}, cited ${citations} times`],
    ['mutual imports of folders', `${mutualFolders(graph).size}`],
    ['imports against the order', `${against}`],
    ['lines', sizes.join(', ')],
    [
      'longest file of source',
      longest === undefined ? '' : `${linesOf(longest)} lines, ${longest.path.slice(ROOT.length)}`,
    ],
  ]
}

const checkout = resolve(process.argv[2] ?? CHECKOUT)
for (const [name, figure] of figuresOf(readSources(checkout), await readHouse(checkout))) {
  process.stdout.write(`${name}: ${figure}\n`)
}
