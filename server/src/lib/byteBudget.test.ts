import { expect, test } from 'bun:test'
import { BudgetFull, ByteBudget } from './byteBudget.ts'

const { signal } = new AbortController()
const settled = () => new Promise((resolve) => setImmediate(resolve))

test('a call that finds too little left waits in turn, and is served when others give back', async () => {
  const budget = new ByteBudget(100, 10, 100)
  const [first, second, third] = [budget.open('one'), budget.open('one'), budget.open('one')]
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
  expect([first, second, third].map(({ waits }) => waits)).toEqual([0, 1, 1])
  for (const reservation of [first, second, third, third]) reservation.close()
  expect([budget.takenBytes, budget.waiting]).toEqual([0, 0])
})

test('the line has an end, and who leaves it holds up nobody', async () => {
  const budget = new ByteBudget(100, 1, 100)
  const first = budget.open('one')
  await first.take(90, signal)
  const leaving = new AbortController()
  const waiting = budget.open('one').take(50, leaving.signal)
  expect(budget.open('one').take(1, signal)).rejects.toBeInstanceOf(BudgetFull)
  leaving.abort(new Error('gone'))
  expect(waiting).rejects.toThrow('gone')
  await budget.open('one').take(10, signal)
  expect([budget.takenBytes, budget.waiting]).toEqual([100, 0])
})

test('a call larger than all of it goes alone; a reservation takes anew without what it has', async () => {
  const budget = new ByteBudget(100, 1, 100)
  const reservation = budget.open('one')
  await reservation.take(70, signal)
  await reservation.take(300, signal)
  expect(budget.takenBytes).toBe(300)
  reservation.set(40)
  expect(budget.takenBytes).toBe(40)
})

test('a reservation that was closed while it waited takes nothing', async () => {
  const budget = new ByteBudget(100, 1, 100)
  const [first, second] = [budget.open('one'), budget.open('one')]
  await first.take(100, signal)
  const waiting = second.take(50, signal)
  second.close()
  first.close()
  await waiting
  second.set(10)
  expect(budget.takenBytes).toBe(0)
})

test('an owner takes its share at most, in several; those of another are served at once', async () => {
  const budget = new ByteBudget(100, 10, 50)
  const open = [budget.open('one'), budget.open('one')]
  await Promise.all(open.map((reservation) => reservation.take(25, signal)))
  const served: string[] = []
  const waiting = [1, 2, 3].map((index) =>
    budget
      .open('one')
      .take(1, signal)
      .then(() => served.push(`one ${index}`)),
  )
  const other = budget.open('other')
  await other.take(40, signal)
  expect(budget.open('third').tryTake(10)).toBe(true)
  expect(budget.open('one').tryTake(0)).toBe(false)
  expect([served, budget.takenBytes, budget.waiting]).toEqual([[], 100, 3])
  // The other's memory is not for those that have their share.
  other.close()
  await settled()
  expect(served).toEqual([])
  open[0]?.close()
  await Promise.all(waiting)
  expect(served).toEqual(['one 1', 'one 2', 'one 3'])
})

test('one reservation may take more than a share, and waits for it without keeping others behind it', async () => {
  const budget = new ByteBudget(100, 10, 50)
  const small = budget.open('other')
  await small.take(1, signal)
  const large = budget.open('one')
  const waiting = large.take(100, signal)
  for (let count = 0; count < 200; count += 1) {
    const next = budget.open('other')
    await next.take(10, signal)
    next.close()
  }
  expect(budget.waiting).toBe(1)
  small.close()
  await waiting
  expect(budget.takenBytes).toBe(100)
})

test('owners that wait take turns', async () => {
  const budget = new ByteBudget(100, 10, 50)
  const all = budget.open('all')
  await all.take(100, signal)
  const served: string[] = []
  for (const owner of ['one', 'one', 'one', 'other', 'other', 'third']) {
    const reservation = budget.open(owner)
    void reservation.take(50, signal).then(() => {
      served.push(owner)
      setImmediate(() => reservation.close())
    })
  }
  all.close()
  while (budget.takenBytes > 0) await settled()
  expect(served).toEqual(['one', 'other', 'third', 'one', 'other', 'one'])
})

test('one that finds too little left is passed by others, and not for ever', async () => {
  const budget = new ByteBudget(100, 10, 50)
  const [first, second] = [budget.open('first'), budget.open('second')]
  await first.take(45, signal)
  await second.take(45, signal)
  let isServed = false
  const waiting = budget
    .open('one')
    .take(20, signal)
    .then(() => {
      isServed = true
    })
  let passes = 0
  for (let next = budget.open('other'); next.tryTake(10); next = budget.open('other')) {
    passes += 1
    next.close()
  }
  expect([passes, isServed]).toEqual([64, false])
  first.set(30)
  await waiting
  expect(budget.open('other').tryTake(5)).toBe(true)
})

test('where the line is full, the last of the owner with the most waiting leaves it for another owner', async () => {
  const budget = new ByteBudget(100, 3, 50)
  await budget.open('all').take(100, signal)
  const outcomes: string[] = []
  const ask = (owner: string, name: string) =>
    void budget
      .open(owner)
      .take(50, signal)
      .catch((error: unknown) => outcomes.push(`${name} ${error instanceof BudgetFull}`))
  for (const name of ['one 1', 'one 2', 'one 3', 'one 4']) ask('one', name)
  await settled()
  expect(outcomes).toEqual(['one 4 true'])
  ask('other', 'other 1')
  await settled()
  expect(outcomes).toEqual(['one 4 true', 'one 3 true'])
  ask('other', 'other 2')
  ask('third', 'third 1')
  await settled()
  expect(outcomes.slice(2)).toEqual(['other 2 true', 'one 2 true'])
  expect(budget.waiting).toBe(3)
})
