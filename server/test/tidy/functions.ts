import { parseSync } from 'oxc-parser'
import { isTest, type Source } from './sources.ts'

/** A function, method or callback with a body. */
export interface FoundFunction {
  readonly path: string
  /** Its own name, or the call that takes it as an argument, such as `test('a title')`. */
  readonly name: string
  /** Of its first line, from 1. */
  readonly line: number
  /** From its first line to its last, with comments, blank lines and the functions inside it. */
  readonly lines: number
}

/** The table of long functions has a column for each. */
export type Part = 'source' | 'tests' | 'benches'

/** The part of the checkout that a file belongs to. */
export function partOf(path: string): Part {
  if (path.startsWith('server/bench/') && !isTest(path)) return 'benches'
  return /^(server|cli)\/src\//.test(path) && !isTest(path) ? 'source' : 'tests'
}

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
}

const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'])

/** A callback that only groups tests is a list, and no function to be read at once. */
const GROUP = /^describe\b/

/** Returns the functions of a TypeScript file in the order of their first lines. Throws for a file that does not parse. */
export function functionsOf({ path, text }: Source): FoundFunction[] {
  const { program, errors } = parseSync(path, text)
  if (errors[0] !== undefined) throw new Error(`${path}: ${errors[0].message}`)
  const lineOf = lineCounter(text)
  const found: FoundFunction[] = []
  const visit = (node: Node, parent: Node) => {
    if (FUNCTIONS.has(node.type) && 'body' in node && node.body !== null) {
      const name = nameOf(node, parent, text)
      const [line, last] = [lineOf(node.start), lineOf(node.end)]
      if (!GROUP.test(name)) found.push({ path, name, line, lines: last - line + 1 })
    }
    for (const child of childrenOf(node)) visit(child, node)
  }
  visit(program, program)
  return found
}

function childrenOf(node: Node): Node[] {
  return Object.values(node).flat().filter(isNode)
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && 'start' in value
}

function nameOf(node: Node, parent: Node, text: string): string {
  const textOf = (value: unknown) => (isNode(value) ? text.slice(value.start, value.end) : '')
  const field = (of: Node, name: string) => (of as unknown as Record<string, unknown>)[name]
  const own = textOf(field(node, 'id'))
  if (own !== '') return own
  if (parent.type !== 'CallExpression') return textOf(field(parent, 'id')) || textOf(field(parent, 'key')) || 'unnamed'
  const [first] = [field(parent, 'arguments')].flat()
  const title = isNode(first) && first.type === 'Literal' ? textOf(first) : ''
  return `${textOf(field(parent, 'callee')).replace(/\s+/g, ' ')}(${title})`
}

/** Returns a function that gives the line, from 1, of an offset. */
function lineCounter(text: string): (offset: number) => number {
  const starts = [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)]
  return (offset) => {
    let [low, high] = [0, starts.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((starts[middle] ?? 0) <= offset) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** More do not fit on a screen. */
export const LINES_OF_FUNCTION = 70

/**
 * Returns the functions of TypeScript files that have more than {@link LINES_OF_FUNCTION} lines, with their lines, as
 * `path name`; a second one of that name and file as `path name 2`.
 */
export function longFunctions(sources: readonly Source[]): Record<Part, Map<string, number>> {
  const found = {
    source: new Map<string, number>(),
    tests: new Map<string, number>(),
    benches: new Map<string, number>(),
  }
  for (const { path, name, lines } of sources.flatMap(functionsOf)) {
    if (lines <= LINES_OF_FUNCTION) continue
    const ofPart = found[partOf(path)]
    let own = `${path} ${name}`
    for (let count = 2; ofPart.has(own); count += 1) own = `${path} ${name} ${count}`
    ofPart.set(own, lines)
  }
  return found
}
