import { expect, test } from 'bun:test'
import { PassThrough } from 'node:stream'
import { TurnedClock } from '../../../test/clock.ts'
import { eachLine, limitLines } from './lines.ts'

test.each([
  [['a\nb\n'], ['a', 'b']],
  [
    ['a', 'b\nc'],
    ['ab', 'c'],
  ],
  [['\n\n'], ['', '']],
  [['123456789\n12'], ['12345', '12']],
  [
    ['12345', '6789', '0\nx\n'],
    ['12345', 'x'],
  ],
  [['ö'.repeat(3)], ['ööö']],
])('%j are the lines %j', async (pieces, lines) => {
  const stream = new PassThrough()
  const seen: string[] = []
  eachLine(stream, 5, (line) => seen.push(line))
  for (const piece of pieces) stream.write(piece)
  stream.end()
  await new Promise((resolve) => stream.on('close', resolve))
  expect(seen).toEqual(lines)
})

test('60 lines a minute pass', async () => {
  const clock = new TurnedClock()
  let passed = 0
  const onLine = limitLines(clock, () => {
    passed += 1
  })
  for (let line = 0; line < 100; line += 1) onLine('')
  expect(passed).toBe(60)
  await clock.turn(60_000)
  onLine('')
  expect(passed).toBe(61)
})
