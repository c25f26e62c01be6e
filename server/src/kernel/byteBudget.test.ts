import { expect, test } from 'bun:test'
import { BudgetFull, ByteBudget } from './byteBudget.ts'

const { signal } = new AbortController()
const settled = () => new Promise((resolve) => setImmediate(resolve))

test('who finds too little left waits in turn, and is served when others give back', async () => {
  const budget = new ByteBudget(100, 10)
  const [first, second, third] = [budget.open(), budget.open(), budget.open()]
  await first.take(60, signal)
  const order: string[] = []
  const large = second.take(80, signal).then(() => order.push('large'))
  // It would fit, but stands behind.
  const small = third.take(10, signal).then(() => order.push('small'))
  await settled()
  expect([order, budget.takenBytes, budget.waiting]).toEqual([[], 60, 2])
  first.set(10)
  await Promise.all([large, small])
  expect([order, budget.takenBytes]).toEqual([['large', 'small'], 100])
  for (const room of [first, second, third, third]) room.close()
  expect([budget.takenBytes, budget.waiting]).toEqual([0, 0])
})

test('the line has an end, and who leaves it holds up nobody', async () => {
  const budget = new ByteBudget(100, 1)
  const first = budget.open()
  await first.take(90, signal)
  const leaving = new AbortController()
  const waiting = budget.open().take(50, leaving.signal)
  expect(budget.open().take(1, signal)).rejects.toBeInstanceOf(BudgetFull)
  leaving.abort(new Error('gone'))
  expect(waiting).rejects.toThrow('gone')
  await budget.open().take(10, signal)
  expect([budget.takenBytes, budget.waiting]).toEqual([100, 0])
})

test('what is larger than all of it goes alone; a room takes anew without what it has', async () => {
  const budget = new ByteBudget(100, 1)
  const room = budget.open()
  await room.take(70, signal)
  await room.take(300, signal)
  expect(budget.takenBytes).toBe(300)
  room.set(40)
  expect(budget.takenBytes).toBe(40)
})

test('a room that was closed while it waited takes nothing', async () => {
  const budget = new ByteBudget(100, 1)
  const [first, second] = [budget.open(), budget.open()]
  await first.take(100, signal)
  const waiting = second.take(50, signal)
  second.close()
  first.close()
  await waiting
  second.set(10)
  expect(budget.takenBytes).toBe(0)
})
