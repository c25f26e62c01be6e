import { expect, test } from 'bun:test'
import { readPoolFile } from './parse.ts'

const faultOf = (address: string) => (address.startsWith('bad') ? 'is bad' : null)

test.each([
  [
    'one\ntwo\n',
    [
      [1, 'one'],
      [2, 'two'],
    ],
    [],
  ],
  [
    '# of 2026\r\n\r\n  one # the first\r\n\ttwo',
    [
      [3, 'one'],
      [4, 'two'],
    ],
    [],
  ],
  [
    'one\ntwo\none\none',
    [
      [1, 'one'],
      [2, 'two'],
    ],
    [3, 4].map((line) => `line ${line} has the same address as line 1: remove one of them`),
  ],
  ['bad-secret\none', [[2, 'one']], ['line 1 is bad']],
  ['', [], ['the file has no address: write one a line']],
  ['# nothing\n\n', [], ['the file has no address: write one a line']],
] as const)('%j', (text, lines, problems) => {
  const read = readPoolFile(text, faultOf)
  expect(read.lines.map(({ line, address }) => [line, address])).toEqual(lines.map((each) => [...each]))
  expect(read.problems).toEqual([...problems])
})

test('of many mistakes the first are told', () => {
  const { problems } = readPoolFile(Array.from({ length: 50 }, (_, index) => `bad${index}`).join('\n'), faultOf)
  expect(problems).toHaveLength(21)
  expect(problems.at(-1)).toBe('30 more lines are wrong')
})
