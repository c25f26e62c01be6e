/** The coded rules, such as those of errors: each code that is cited anywhere stands in docs/rules.md, and stands there once. */

import { expect, test } from 'bun:test'
import { citedCodes, definedCodes, NO_CODES, RULES_PAGE } from './tidy/rules.ts'
import { readSources } from './tidy/sources.ts'

// A code put together here is no citation of this file.
const codeOf = (letter: string, number: number) => `${letter}${number}`

const sources = readSources()
const defined = definedCodes(sources.find(({ path }) => path === RULES_PAGE)?.text ?? '')

/** Returns the places of codes that are not among `known`, each with what to do. */
function unresolved(among: typeof sources, known: readonly string[]): string[] {
  return among
    .flatMap(citedCodes)
    .filter(({ code }) => !known.includes(code))
    .map(
      ({ code, place }) =>
        `${place} (${code}): add it to ${RULES_PAGE}, or to NO_CODES in tidy/rules.ts if it is no rule`,
    )
}

function repeated(codes: readonly string[]): string[] {
  return codes.filter((code, index) => codes.indexOf(code) !== index)
}

test('every code that is cited stands in docs/rules.md', () => {
  expect(defined.length).toBeGreaterThan(0)
  expect(unresolved(sources, defined)).toEqual([])
})

test('no code stands there twice', () => {
  expect(repeated(defined)).toEqual([])
})

test('no exception hides a rule', () => {
  expect(Object.keys(NO_CODES).filter((code) => defined.includes(code))).toEqual([])
})

test('a code that does not exist is found in every form of citation, and so is one that is defined twice', () => {
  const [first, second, third] = [codeOf('Y', 1), codeOf('Y', 2), codeOf('Y', 3)]
  const text = `fine (${first}).\n/** ${second}: a rule */\nrules ${first} to ${third}, ${first}, ${second} and S3`
  const found = unresolved([{ path: 'a.ts', text }], [first, third])
  expect(found.map((each) => each.split(':', 2).join(':').replace(/ .*/, ''))).toEqual(['a.ts:2', 'a.ts:3', 'a.ts:3'])
  const page = `### ${first} A rule\n\nCites ${second}.\n\n### ${third} Another\n\n### ${first} Again\n`
  expect(definedCodes(page)).toEqual([first, third, first])
  expect(repeated(definedCodes(page))).toEqual([first])
})
