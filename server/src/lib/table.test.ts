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

const ID = '01b8dac5-b400-786d-8ee0-34d8de6ecba3'

test('a table fits 80 columns: long cells go on below, whole words first, and ids and amounts stay whole', () => {
  const rows = [
    [ID, 'an organization with a long name', 'serverless:write,billing:read,webhooks:write', '12345.00000001'],
    [ID, 'a', 'read_only', '0.01'],
  ]
  const text = table(['ID', 'ORG', 'SCOPES', 'USD'], rows, 'none')
  for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
  expect(text).toContain('12345.00000001\n')
  expect(text.match(new RegExp(ID, 'g'))).toHaveLength(2)
  const below = text.split('\n')[2] ?? ''
  expect(below.slice(0, ID.length).trim()).toBe('')
  for (const [column, words] of [
    [1, rows[0]?.[1]],
    [2, rows[0]?.[2]],
  ] as const) {
    const start = text.split('\n')[0]?.indexOf(['ID', 'ORG', 'SCOPES'][column] ?? '') ?? 0
    const end = text.split('\n')[0]?.indexOf(['ORG', 'SCOPES', 'USD'][column] ?? '') ?? 0
    const lines = text.split('\n').slice(1, -2)
    const joined = lines.map((line) => line.slice(start, end).trim()).join('')
    expect(joined.replaceAll(' ', '')).toContain((words ?? '').replaceAll(' ', ''))
  }
})

test('no word is broken where the words fit', () => {
  const rows = [[ID, 'told', 'established', 'a@example.com, b@example.com']]
  expect(table(['ID', 'NAME', 'STANDING', 'NOTICES TO'], rows, 'none').split('\n')).toEqual([
    `ID${' '.repeat(36)}NAME  STANDING     NOTICES TO`,
    `${ID}  told  established  a@example.com,`,
    `${' '.repeat(57)}b@example.com`,
    '',
  ])
})

test('a single word that is too long is broken, and nothing of it is lost', () => {
  const lines = table(['A'], [['x'.repeat(170)]], 'none')
    .trim()
    .split('\n')
    .slice(1)
  expect(lines.map((line) => line.length)).toEqual([80, 80, 10])
})
