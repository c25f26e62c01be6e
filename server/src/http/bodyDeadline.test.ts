import { expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { createBodyDeadlines } from './bodyDeadline.ts'

test('each body has the whole time from its own beginning, and those that have arrived are left alone', async () => {
  const clock = new TurnedClock()
  const deadlines = createBodyDeadlines(clock, 60_000)
  const late: string[] = []
  const begin = (name: string) => deadlines.begin(() => late.push(name))
  begin('first')
  await clock.turn(30_000)
  const end = begin('arrives')
  begin('second')
  await clock.turn(29_999)
  expect(late).toEqual([])
  await clock.turn(1)
  expect(late).toEqual(['first'])
  end()
  await clock.turn(30_000)
  expect(late).toEqual(['first', 'second'])
  // The line was empty for a while.
  begin('third')
  await clock.turn(59_999)
  expect(late).toHaveLength(2)
  await clock.turn(1)
  expect(late).toEqual(['first', 'second', 'third'])
})
