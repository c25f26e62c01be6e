import { expect, test } from 'bun:test'
import { table } from './table.ts'

test('columns are aligned, accents included, and no line ends in spaces', () => {
  const rows = [
    ['Cafe\u0301', '1'],
    ['a', '22'],
  ]
  expect(table(['NAME', 'N'], rows, 'none')).toBe('NAME  N\nCafe\u0301  1\na     22\n')
})

test('nothing to show is a sentence', () => {
  expect(table(['NAME'], [], 'There is nothing.')).toBe('There is nothing.\n')
})
