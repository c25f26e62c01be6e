import { describe, expect, test } from 'bun:test'
import { z } from 'zod'
import { boundedList, ISSUES_MOST } from './boundedList.ts'

const BOUNDS = { least: 1, most: 1_000, tooFew: 'too few', tooMany: 'too many' }
let looks = 0
const element = z.strictObject({
  text: z.string().refine(() => {
    looks += 1
    return true
  }),
})
const bounded = z.strictObject({ list: boundedList(element, BOUNDS) })
const plain = z.strictObject({ list: z.array(element).min(1, { error: 'too few' }).max(1_000, { error: 'too many' }) })
const listOf = (length: number, value: (index: number) => unknown) => ({
  list: Array.from({ length }, (_, i) => value(i)),
})

describe('a bounded list', () => {
  test.each([
    ['good, short', listOf(3, () => ({ text: 'a' }))],
    ['good, as long as may be', listOf(1_000, () => ({ text: 'a' }))],
    ['empty', { list: [] }],
    ['no list', { list: 'a' }],
    ['missing', {}],
    ['with one wrong element of a few', listOf(3, (index) => ({ text: index === 1 ? 7 : 'a' }))],
    ['with one wrong element of many', listOf(100, (index) => ({ text: index === 70 ? 7 : 'a' }))],
    ['with an unknown field of many', listOf(100, (index) => ({ text: 'a', ...(index === 70 ? { other: 1 } : {}) }))],
    ['with an element of the wrong type', listOf(100, (index) => (index === 99 ? null : { text: 'a' }))],
  ])('%s: judged as by the plain schema', (_name, body) => {
    const [ours, plains] = [bounded.safeParse(body), plain.safeParse(body)]
    expect(ours.success).toBe(plains.success)
    expect(ours.data).toEqual(plains.data)
    expect(ours.error?.issues).toEqual(plains.error?.issues)
  })

  test('of too many elements is refused before any is looked at', () => {
    looks = 0
    const { error } = bounded.safeParse(listOf(1_001, () => ({ text: 'a' })))
    expect(error?.issues.map(({ message, path }) => [message, path])).toEqual([['too many', ['list']]])
    expect(looks).toBe(0)
  })

  test('of wrong elements is looked at until there are as many issues as are sought', () => {
    looks = 0
    const { error } = bounded.safeParse(listOf(1_000, (index) => ({ text: 'a', ...(index >= 5 ? { other: 1 } : {}) })))
    expect(error?.issues).toHaveLength(ISSUES_MOST)
    expect(looks).toBe(5 + ISSUES_MOST)
  })
})
