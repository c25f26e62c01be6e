import { expect, test } from 'bun:test'
import { listPage, PAGE_BYTES_MOST } from './listPage.ts'

const entry = (bytes: number) => ({ text: 'x'.repeat(bytes - '{"text":""}'.length) })
const same = <T>(each: T) => each
const half = PAGE_BYTES_MOST / 2

test.each<[string, number[], number, { shown: number; goesOn: boolean }]>([
  ['nothing', [], 2, { shown: 0, goesOn: false }],
  ['fewer than the limit', [20], 2, { shown: 1, goesOn: false }],
  ['as many as the limit', [20, 20], 2, { shown: 2, goesOn: false }],
  ['one more than the limit', [20, 20, 20], 2, { shown: 2, goesOn: true }],
  ['exactly the bytes of a page', [half, half], 2, { shown: 2, goesOn: false }],
  ['a byte more than a page', [half, half + 1], 2, { shown: 1, goesOn: true }],
  ['a first entry that is larger than a page', [PAGE_BYTES_MOST + 1, 20], 2, { shown: 1, goesOn: true }],
])('a page of a list with %s', (_name, sizes, limit, { shown, goesOn }) => {
  const found = sizes.map(entry)
  const { data, last } = listPage(found, limit, same)
  expect(data).toEqual(found.slice(0, shown))
  expect(last).toBe(goesOn ? (found[shown - 1] ?? null) : null)
})

test('the bytes of a page are counted as they are sent, in UTF-8 with escapes', () => {
  const found = [0, 1].map(() => ({ text: '\u0001'.repeat(half / 6 + 1) }))
  expect(listPage(found, 2, same).data).toHaveLength(1)
})
