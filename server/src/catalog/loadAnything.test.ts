import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { fc } from '../../test/properties.ts'
import { type LoadedSettings, loadSettings } from './load.ts'

const EXAMPLE = readFileSync(new URL('../../../tollgate.example.yaml', import.meta.url), 'utf8')

function load(text: string): LoadedSettings {
  return loadSettings(text, { environment: {}, directory: '/etc/tollgate', fileExists: () => true })
}

test('no text crashes the loader, and every refusal has a place', () => {
  const words = fc.constantFrom(
    'models',
    'providers',
    'pricing',
    'id',
    '- ',
    ': ',
    '{',
    '}',
    '[',
    ']',
    '\n',
    '  ',
    '&a ',
    '*a',
    '!!x',
    '"',
    "'",
    '<<',
    'null',
    '-1',
    '1e99',
    '__proto__',
    '\t',
    '|',
    '? ',
    '---',
  )
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(fc.oneof(words, fc.string()), { maxLength: 60 }).map((parts) => parts.join('')),
  )
  fc.assert(
    fc.property(text, (given) => {
      const loaded = load(given)
      if (loaded.ok) return
      expect(loaded.problems.length).toBeGreaterThan(0)
      for (const { line, column } of loaded.problems) expect(line >= 1 && column >= 1).toBe(true)
    }),
    { numRuns: 1_000 },
  )
})

test('no change to a good file crashes the loader', () => {
  const anything = fc.anything({ withBigInt: false, maxDepth: 2 }).map((value) => JSON.stringify(value) ?? 'null')
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: EXAMPLE.length }),
      fc.nat(40),
      fc.oneof(anything, fc.string()),
      (at, length, put) => {
        load(EXAMPLE.slice(0, at) + put + EXAMPLE.slice(at + length))
      },
    ),
    { numRuns: 300 },
  )
})

function problemsIn(text: string): string[] {
  const loaded = load(text)
  return loaded.ok ? [] : loaded.problems.map(({ reason }) => reason)
}

test('deep nesting, a flood of anchors and a huge file are refused, not followed', () => {
  expect(problemsIn('['.repeat(100_000))).toHaveLength(50)
  expect(
    problemsIn(
      `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefgh'.replaceAll(/./g, (c, i: number) => `${c}: &${c} [${`*${'abcdefgh'[i]},`.repeat(9)}]\n`)}`,
    ),
  ).toHaveLength(1)
  expect(problemsIn('#'.repeat(17_000_000))[0]).toMatch(/is this the settings file/)
})
