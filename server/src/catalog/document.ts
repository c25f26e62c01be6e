import { isMap, isScalar, isSeq, isAlias as isYamlAlias, LineCounter, type Node, parseDocument } from 'yaml'
import type { SettingsProblem } from './settings.ts'

/** Steps from the top of the file: keys and list positions. */
export type Path = readonly (string | number)[]

/** Notes a problem at the value of `path`, or at its key; where there is neither, at what should have held it. */
export type Report = (path: Path, reason: string, at?: 'key') => void

/** A settings file that is YAML: plain values, and a way to say where each stands. */
export interface SettingsDocument {
  /** Null where the file is empty. A section of the file that is left empty is `{}`; other values left empty are left out. */
  readonly value: unknown
  readonly report: Report
  /** The line of what stands at `path`, from 1. */
  lineOf(path: Path): number
  /** The problems that were reported so far, in the order of the file; the first 50. */
  problems(): readonly SettingsProblem[]
}

/** A settings file of 10,000 models has about five megabytes; anything far larger is some other file. */
const SETTINGS_TEXT_MAX_CHARACTERS = 16 * 1024 * 1024

/** How often one anchor may be used; keeps a few lines from unfolding into gigabytes. */
const ALIASES_MAX = 1_000

/** As many as anyone mends before trying again. A file that is not YAML at all has thousands. */
const PROBLEMS_MAX = 50

/** Writes a path as people do: `models[0].pricing`. */
function pathText(path: Path): string {
  return path.map((step, index) => (typeof step === 'number' ? `[${step}]` : index === 0 ? step : `.${step}`)).join('')
}

/**
 * Reads YAML. `sections` are the keys of the file that hold sections. A text that is not YAML becomes problems;
 * nothing throws.
 */
export function readDocument(text: string, sections: ReadonlySet<string>): SettingsDocument {
  if (text.length > SETTINGS_TEXT_MAX_CHARACTERS) {
    return brokenDocument(`has over ${SETTINGS_TEXT_MAX_CHARACTERS} characters: is this the settings file?`)
  }
  try {
    return parseText(text, sections)
  } catch {
    // Nested so deeply that the stack ends, or anchors used beyond ALIASES_MAX. The parser's words may quote the file.
    return brokenDocument(
      `can't be read as YAML: it is nested too deeply, or uses one anchor over ${ALIASES_MAX} times`,
    )
  }
}

function brokenDocument(reason: string): SettingsDocument {
  const problem: SettingsProblem = { line: 1, column: 1, path: '', reason }
  return { value: null, report: () => {}, lineOf: () => 1, problems: () => [problem] }
}

function parseText(text: string, sections: ReadonlySet<string>): SettingsDocument {
  const lines = new LineCounter()
  // Pretty errors quote the lines around them, and a credential may stand there by mistake.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, stringKeys: true })
  const problems: SettingsProblem[] = []
  const noteAt = (offset: number, path: string, reason: string) => {
    const position = lines.linePos(offset)
    problems.push({ line: Math.max(position.line, 1), column: Math.max(position.col, 1), path, reason })
  }
  for (const error of [...document.errors, ...document.warnings]) noteAt(error.pos[0], '', yamlReason(error.code))
  const reported: { readonly path: Path; readonly reason: string }[] = []
  /**
   * A key that is missing beside another mistake, or beside a misspelt key, is most likely missing because of that
   * mistake.
   */
  const follows = (path: Path, reason: string) =>
    /^(is missing|has no|needs|must have|must name)/.test(reason) &&
    reported.some(
      (earlier) =>
        (isInside(earlier.path, path) && (earlier.path.length > path.length || earlier.reason.startsWith('must be'))) ||
        (isInside(earlier.path, path.slice(0, -1)) && earlier.reason.includes(`did you mean '${path.at(-1)}'`)),
    )
  const resolve = (node: unknown): unknown => (isYamlAlias(node) ? node.resolve(document) : node)
  const offsetOf = (path: Path, at?: 'key') => offsetIn(document.contents, path, at === 'key', resolve)
  return {
    value: problems.length > 0 ? null : readTop(document.toJS({ maxAliasCount: ALIASES_MAX }), sections),
    report: (path, reason, at) => {
      if (!follows(path, reason)) noteAt(offsetOf(path, at), pathText(path), reason)
      reported.push({ path, reason })
    },
    lineOf: (path) => lines.linePos(offsetOf(path)).line,
    problems: () => problems.toSorted((a, b) => a.line - b.line || a.column - b.column).slice(0, PROBLEMS_MAX),
  }
}

/** Returns whether `path` is `outer` or leads into it. */
function isInside(path: Path, outer: Path): boolean {
  return outer.every((step, index) => path[index] === step)
}

function offsetIn(top: Node | null, path: Path, wantsKey: boolean, resolve: (node: unknown) => unknown): number {
  let offset = 0
  let node: unknown = top
  for (const [index, step] of path.entries()) {
    const held = resolve(node)
    if (isSeq(held)) {
      node = held.items[Number(step)]
    } else if (isMap(held)) {
      const pair = held.items.find((item) => (isScalar(item.key) ? `${item.key.value}` : '') === `${step}`)
      const key = startOf(pair?.key)
      if (wantsKey && index === path.length - 1) return key ?? offset
      offset = key ?? offset
      node = pair?.value
    } else {
      return offset
    }
    offset = startOf(node) ?? offset
  }
  return path.length === 0 ? (startOf(top) ?? 0) : offset
}

function startOf(node: unknown): number | null {
  if (typeof node !== 'object' || node === null || !('range' in node)) return null
  return Array.isArray(node.range) && typeof node.range[0] === 'number' ? node.range[0] : null
}

/** In our words: the parser's own may quote the text, in which a credential may stand by mistake. */
function yamlReason(code: string): string {
  switch (code) {
    case 'DUPLICATE_KEY':
      return 'this key stands twice in one section: remove one of them'
    case 'TAB_AS_INDENT':
      return 'is indented with a tab: YAML takes spaces only'
    case 'BAD_INDENT':
      return 'is not YAML here: the indentation does not fit the lines above'
    case 'MULTILINE_IMPLICIT_KEY':
    case 'MISSING_CHAR':
      return 'is not YAML here: a colon, quote, comma or closing bracket is missing, here or in the line above'
    case 'MULTIPLE_DOCS':
      return "holds a second document: remove the line '---'"
    case 'BAD_ALIAS':
      return 'refers to an anchor that is not set above'
    case 'TAG_RESOLVE_FAILED':
      return "has a tag ('!…') that means nothing here: remove it"
    case 'NON_STRING_KEY':
      return 'this key is not text: put it in quotes'
    default:
      return `is not YAML here (${code.toLowerCase().replaceAll('_', ' ')})`
  }
}

/** A section whose lines are all comments is there all the same: its name alone switches some on. */
function readTop(top: unknown, sections: ReadonlySet<string>): unknown {
  if (typeof top !== 'object' || top === null || Array.isArray(top)) return withoutNulls(top)
  const entries = Object.entries(top)
  return withoutNulls(
    Object.fromEntries(entries.map(([key, held]) => [key, held === null && sections.has(key) ? {} : held])),
  )
}

/** A key with nothing behind it counts as left out. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, held]) => held !== null)
      .map(([key, held]) => [key, withoutNulls(held)]),
  )
}
