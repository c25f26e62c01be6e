/**
 * The rules of the house that have a list of known breaches: long functions, names with several owners. The lists are in
 * `tidy/today.ts` and only shrink. Rules on folders and their READMEs have no list. Beside each rule stands a case that
 * breaks it.
 */

import { describe, expect, test } from 'bun:test'
import { bareComments } from './tidy/comments.ts'
import { severalOwners } from './tidy/exports.ts'
import { falseAlone, goneFiles, mutualFolders, untoldFolders } from './tidy/folders.ts'
import { functionsOf, LINES_OF_FUNCTION, longFunctions, type Part, partOf } from './tidy/functions.ts'
import { MAY_IMPORT, mayImportLine, unusedPairs } from './tidy/house.ts'
import { findCycles, importGraph } from './tidy/imports.ts'
import { compareWithList } from './tidy/lists.ts'
import { PACKAGES_OF_EVERY_SERVER, packagesLoadedWith } from './tidy/packages.ts'
import { readSources } from './tidy/sources.ts'
import { ownedTables, tablesOf } from './tidy/tables.ts'
import { KEPT_NAMES, LONG_FUNCTIONS } from './tidy/today.ts'

const LIST = 'server/test/tidy/today.ts'
const HOUSE = 'server/test/tidy/house.ts'
const LINES_OF_SOURCE = 354
const PROPERTIES = 'server/test/properties.ts'

const sources = readSources()
const typeScript = sources.filter(({ path }) => path.endsWith('.ts'))
const inSource = typeScript.filter(({ path }) => partOf(path) === 'source')
const graph = importGraph(sources)

/** Nothing may be found; what is found is shown, each with what to do about it. */
function expectNone(found: readonly string[], whatToDo: string): void {
  expect(found.map((place) => `${place}: ${whatToDo}`)).toEqual([])
}

describe('functions', () => {
  const found = longFunctions(typeScript)

  for (const part of ['source', 'tests', 'benches'] satisfies Part[]) {
    const { worse, slack } = compareWithList(found[part], LONG_FUNCTIONS[part])

    test(`none of ${part} has more than ${LINES_OF_FUNCTION} lines, but for the listed ones`, () => {
      expectNone(worse, 'split it by what it does')
    })

    test(`the list of long functions of ${part} allows no more than they need`, () => {
      expectNone(slack, `lower it in ${LIST}, or take it out if it has at most ${LINES_OF_FUNCTION} lines`)
    })
  }

  test('every form of function is measured, and a group of tests is none', () => {
    const text = [
      'export function one() {}',
      'const two = async () => {',
      '  return 2',
      '}',
      'class Box { three() { return [1].map((each) => {',
      '  return each',
      '}) } }',
      "describe('a group', () => {",
      "  test('four', () => {",
      '  })',
      '})',
      'export function five(): void',
    ].join('\n')
    const measured = functionsOf({ path: 'a.ts', text }).map(({ name, line, lines }) => [name, line, lines])
    expect(measured).toEqual([
      ['one', 1, 1],
      ['two', 2, 3],
      ['three', 5, 3],
      ['[1].map()', 5, 3],
      ["test('four')", 9, 2],
    ])
  })

  test('a function of one line too many is found in its part, and functions of one name are told apart', () => {
    const withLines = (lines: number) => `function long() {${'\n'.repeat(lines - 1)}}\n`
    const text = withLines(LINES_OF_FUNCTION) + withLines(LINES_OF_FUNCTION + 1) + withLines(LINES_OF_FUNCTION + 2)
    const paths = ['server/src/a.ts', 'server/src/a.test.ts', 'server/test/b.ts', 'server/bench/c.ts']
    const planted = longFunctions(paths.map((path) => ({ path, text })))
    const ofFile = (path: string): [string, number][] => [
      [`${path} long`, LINES_OF_FUNCTION + 1],
      [`${path} long 2`, LINES_OF_FUNCTION + 2],
    ]
    expect([...planted.source]).toEqual(ofFile('server/src/a.ts'))
    expect([...planted.tests]).toEqual([...ofFile('server/src/a.test.ts'), ...ofFile('server/test/b.ts')])
    expect([...planted.benches]).toEqual(ofFile('server/bench/c.ts'))
  })

  test('a list is refused where the code is worse than it, and where the code is better', () => {
    const now = new Map(Object.entries({ same: 80, longer: 81, shorter: 79, fresh: 71 }))
    expect(compareWithList(now, { same: 80, longer: 80, shorter: 80, gone: 80 })).toEqual({
      worse: ['longer (81)', 'fresh (71)'],
      slack: ['shorter (79 in place of 80)', 'gone (gone in place of 80)'],
    })
  })
})

describe('exported names', () => {
  const owners = severalOwners(inSource)
  const isKept = (name: string, paths: readonly string[]) =>
    KEPT_NAMES[name] !== undefined && paths.every((path) => path.startsWith('server/src/providers/'))

  test('each has one owner in server/src and cli/src together, but for the listed ones', () => {
    const folders = new Set(inSource.map(({ path }) => path.split('/', 2).join('/')))
    expect([...folders].sort()).toEqual(['cli/src', 'server/src'])
    const found = [...owners].filter(([name, paths]) => !isKept(name, paths))
    expectNone(
      found.map(([name, paths]) => `${name}, in ${paths.join(', ')}`),
      'name the new one by what it is, or import it from its owner; docs/glossary.md has the words',
    )
  })

  test('a name that is listed to be kept is kept within the dialects alone', () => {
    const dialects = ['server/src/providers/openai/request.ts', 'server/src/providers/gemini/request.ts']
    expect(isKept('toWire', dialects)).toBe(true)
    expect(isKept('toWire', [...dialects, 'server/src/catalog/wire.ts'])).toBe(false)
    expect(isKept('fresh', dialects)).toBe(false)
  })

  test('a name that is listed to be kept has several owners', () => {
    const single = Object.keys(KEPT_NAMES).filter((name) => !owners.has(name))
    expectNone(single, `take it out of KEPT_NAMES in ${LIST}`)
  })

  test('every form of export is found', () => {
    const forms = [
      'export const a = 1, b = 2',
      'export function c() {}',
      'export class D {}',
      'export interface E {}',
      'export type F = 1',
      'const x = 1\nexport { x as g }',
      "export { h } from './other.ts'",
      "export type { I } from './other.ts'",
    ]
    const [one, other] = ['server/src/one.ts', 'server/src/two/other.ts']
    const unexported = 'const inner = 1\nexport interface Other { readonly a: number }'
    const found = severalOwners([
      { path: one, text: forms.join('\n') },
      { path: other, text: `${forms.join('\n')}\n${unexported}` },
    ])
    expect([...found]).toEqual(['a', 'b', 'c', 'D', 'E', 'F', 'g', 'h', 'I'].map((name) => [name, [one, other]]))
  })
})

describe('packages', () => {
  test('a server loads those of every server alone; the others come when the settings ask for them', () => {
    const found = packagesLoadedWith('server/src/commands/serve.ts', sources)
    expectNone(
      [...found]
        .filter(([name]) => !PACKAGES_OF_EVERY_SERVER.includes(name))
        .map(([name, path]) => `${name}, by ${path}`),
      'import() the file where the settings ask for it, or measure with server/bench/compare.ts and list it in tidy/packages.ts',
    )
    expect([...found.keys()].sort()).toEqual([...PACKAGES_OF_EVERY_SERVER])
  })

  test('the values of property tests follow from the seed of the run', () => {
    const found = typeScript.filter(({ path, text }) => path !== PROPERTIES && text.includes("from 'fast-check'"))
    expectNone(
      found.map(({ path }) => path).filter((path) => path !== 'server/test/tidyLists.test.ts'),
      `import { fc } from ${PROPERTIES}`,
    )
  })

  test('types and import() load nothing; values, effects and exports of values do', () => {
    const loaded = (...lines: string[]) => [
      ...packagesLoadedWith('server/src/a.ts', [{ path: 'server/src/a.ts', text: lines.join('\n') }]).keys(),
    ]
    expect(loaded("import type A from 'a'", "import { type B } from 'b'", "export type { C } from 'c'")).toEqual([])
    expect(loaded("const d = await import('d')", "import 'node:fs'", "import { test } from 'bun:test'")).toEqual([])
    expect(
      loaded("import A from 'a/x'", "import 'b'", "export * from '@c/d/e'", "import { type F, g } from 'f'"),
    ).toEqual(['a', 'b', 'f', '@c/d'])
    const far = packagesLoadedWith('server/src/a.ts', [
      { path: 'server/src/a.ts', text: "import { b } from './b/b.ts'" },
      { path: 'server/src/b/b.ts', text: "import c from 'c'\nimport { a } from '../a.ts'" },
    ])
    expect([...far]).toEqual([['c', 'server/src/b/b.ts']])
  })
})

describe('comments', () => {
  test('no sentence of a comment opens with a bare "What …" or "Who …"', () => {
    expectNone(
      bareComments(typeScript),
      'name the thing ("The most that a call may cost, in micro-cents."), or say what the function returns',
    )
  })

  test('such a sentence is found in every form of comment, and a question or a word within a sentence is none', () => {
    const text = [
      '/** What a call may cost. */',
      'const a = 1 // Who pays it.',
      '/**',
      ' * The cost. Whatever is left of it',
      ' * is given back.',
      ' */',
      '// The text goes on below, where it says',
      '// What is left.',
      '// Whose is it?',
      "const b = '// What no comment is.'",
      '/** Returns what is left, and who has it. */',
    ].join('\n')
    expect(bareComments([{ path: 'a.ts', text }])).toEqual([
      'a.ts:1 (What a call may cost.)',
      'a.ts:2 (Who pays it.)',
      'a.ts:3 (Whatever is left of it is give)',
    ])
  })
})

describe('rooms and folders', () => {
  test('the table of imports between rooms allows none that nobody uses', () => {
    const imports = [...graph].flatMap(([from, targets]) => targets.map((to) => [from, to] as const))
    expectNone(unusedPairs(imports), `take it out of MAY_IMPORT in ${HOUSE}`)
    const some = unusedPairs(imports.filter(([from]) => !from.startsWith('routing/')))
    expect(some).toEqual(['routing → catalog', 'routing → providers'])
  })

  test('the README of each room says whom it may import', () => {
    const readmes = new Map(sources.map(({ path, text }) => [path, text.replaceAll(/\s+/g, ' ')]))
    const found = Object.keys(MAY_IMPORT).flatMap((room) => {
      const path = `server/src/${room}/README.md`
      const line = mayImportLine(room)
      return readmes.get(path)?.includes(line) === true ? [] : [`${path}: ${line}`]
    })
    expectNone(found, `say so, as ${HOUSE} has it`)
    expect(mayImportLine('infra')).toBe('**May import** `lib/`.')
    expect(mayImportLine('routing')).toBe('**May import** `lib/`, `infra/`, `catalog/` and `providers/`.')
  })

  test('the table of imports between rooms has no rings', () => {
    expectNone(findCycles(new Map(Object.entries(MAY_IMPORT))), `open the ring in MAY_IMPORT in ${HOUSE}`)
    expect(findCycles(new Map(Object.entries({ a: ['b'], b: ['a'] })))).toEqual(['a → b → a'])
  })

  test('no two folders import each other', () => {
    expectNone(
      [...mutualFolders(graph)].map(([pair, imports]) => `${pair} (${imports})`),
      'move what both need into the lower one, or hand it in as an argument',
    )
  })

  test('folders that import each other are found, one beneath the other too', () => {
    const imports = { 'a/open.ts': ['a/b/two.ts', 'c/x.ts'], 'a/b/two.ts': ['a/one.ts'], 'c/x.ts': ['a/one.ts'] }
    expect([...mutualFolders(new Map(Object.entries(imports))).keys()]).toEqual(['a ↔ a/b', 'a ↔ c'])
  })

  test('the READMEs say whose each table is, and name none that is gone', () => {
    const [tables, owned] = [tablesOf(sources), ownedTables(sources)]
    expectNone(
      [...tables].filter((table) => !owned.has(table)),
      'name it behind "**Owns** the tables" in the README of the folder whose store.ts writes it',
    )
    expectNone(
      [...owned].filter(([table]) => !tables.has(table)).map(([table, path]) => `${table}, in ${path}`),
      'take it out: there is no such table',
    )
  })

  test('tables that are made, named anew and dropped are seen, and those that folders own', () => {
    const made =
      'create table a (x int);\n-- create table b (\ncreate unlogged table c (x int);\nalter table a rename to d;'
    const migrations = [
      { path: 'server/migrations/1.sql', text: made },
      { path: 'server/migrations/2.sql', text: 'create table if not exists e (); drop table c;' },
    ]
    expect([...tablesOf(migrations)]).toEqual(['d', 'e'])
    const text =
      '**Owns** the tables `d`,\n`e` and `f`; the `word` g, and the table `h`.\n\nThe table `i` is not owned.'
    expect([...ownedTables([{ path: 'server/src/a/README.md', text }]).keys()]).toEqual(['d', 'e', 'f', 'h'])
  })

  test('a README names each file of its folder', () => {
    expectNone(
      [...untoldFolders(sources)].map(([folder, files]) => `server/src/${folder}/README.md (${files.join(', ')})`),
      'write it, or add a line for the file: its name and what it does',
    )
  })

  test('a file that no README names is found, and so is a README that is missing', () => {
    const files = ['one.ts', 'two.ts', 'three.ts', 'three.test.ts']
    const at = (folder: string, names: string[]) =>
      names.map((name) => ({ path: `server/src/${folder}/${name}`, text: '' }))
    const readme = { path: 'server/src/told/README.md', text: '`one.ts`, `inner/two.ts`, `threes.ts` and `xthree.ts`' }
    const planted = [...at('told', files), readme, ...at('bare', files), ...at('small', ['one.ts', 'two.ts'])]
    expect([...untoldFolders(planted)]).toEqual([
      ['told', ['two.ts', 'three.ts']],
      ['bare', ['one.ts', 'two.ts', 'three.ts']],
    ])
  })

  test('a README that says which folders beside it are imported is right', () => {
    expectNone(falseAlone(sources, graph), 'say which it imports: "It imports no other folder of … but `../one/`."')
    const readme = (text: string) => [{ path: 'server/src/a/b/README.md', text }]
    const planted = new Map(Object.entries({ 'a/b/x.ts': ['a/b/y.ts', 'a/c/z.ts', 'lib/w.ts'] }))
    expect(falseAlone(readme('It imports no other folder of a.'), planted)).toEqual(['server/src/a/b/README.md (c)'])
    expect(falseAlone(readme('It imports no other\nfolder of a but `../c/`.'), planted)).toEqual([])
    expect(falseAlone(readme('It imports no other folder of a but `../d/`.'), planted)).toHaveLength(1)
  })

  test('a README names no file that is gone', () => {
    expectNone(goneFiles(sources), 'mend the name, or take its line out')
    const text = '`one.ts`, `a/one.ts`, `../one.ts`, `two.ts` and `b/one.ts`, but not two.ts'
    const planted = [
      { path: 'server/src/a/README.md', text },
      { path: 'server/src/a/one.ts', text: '' },
    ]
    expect(goneFiles(planted)).toEqual(['server/src/a/README.md (two.ts)', 'server/src/a/README.md (b/one.ts)'])
  })

  test(`no file of server/src has more than ${LINES_OF_SOURCE} lines`, () => {
    const long = inSource.filter(({ text }) => text.split('\n').length - 1 > LINES_OF_SOURCE)
    expectNone(
      long.map(({ path }) => path),
      'split it by what it does; aim at 200',
    )
  })
})
