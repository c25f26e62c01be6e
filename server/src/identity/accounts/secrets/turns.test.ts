import { expect, test } from 'bun:test'
import { Refused } from '../../../lib/errors.ts'
import { Turns } from './turns.ts'

/** Turns of works that end when the test says so. */
function heldTurns() {
  const turns = new Turns()
  const under: (() => void)[] = []
  const order: string[] = []
  const refused: string[] = []
  const ended: Promise<unknown>[] = []
  return {
    /** The groups whose works have begun, in that order. */
    order,
    refused,
    take(group: string): void {
      const work = () => {
        order.push(group)
        return new Promise<void>((resolve) => under.push(resolve))
      }
      ended.push(turns.take(group, work).catch((error) => refused.push(nameOf(error, group))))
    },
    /** Ends the works one after the other, `most` at most. */
    async end(most: number): Promise<void> {
      for (let count = 0; count < most; count += 1) {
        await settle()
        under.shift()?.()
      }
      await settle()
    },
    all: () => Promise.all(ended),
  }
}

function nameOf(error: unknown, group: string): string {
  return error instanceof Refused && error.refusal.code === 'upstream_unavailable' ? group : `fault: ${error}`
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await Promise.resolve()
}

test('a sign-in from another address waits for one of each address before it, however many of one wait', async () => {
  const held = heldTurns()
  for (let count = 0; count < 24; count += 1) held.take('flood')
  held.take('person')
  await held.end(2)
  expect(held.order).toEqual([...Array(5).fill('flood'), 'person'])
  await held.end(23)
  await held.all()
  expect([held.order.length, held.refused]).toEqual([25, []])
})

test('sign-ins of one address have a quarter of the line', async () => {
  const held = heldTurns()
  for (let count = 0; count < 130; count += 1) held.take('flood')
  await settle()
  expect(held.refused).toEqual(Array(101).fill('flood'))
  held.take('person')
  await held.end(30)
  await held.all()
  expect(held.order.filter((group) => group === 'person')).toHaveLength(1)
  expect(held.order).toHaveLength(4 + 25 + 1)
})

test('a full line has a place for an address that has none: the one with the most waiting gives its last one up', async () => {
  const held = heldTurns()
  for (let count = 0; count < 4; count += 1) held.take('early')
  for (const group of ['a', 'b', 'c', 'd']) for (let count = 0; count < 25; count += 1) held.take(group)
  held.take('a')
  await settle()
  expect(held.refused).toEqual(['a'])
  held.take('person')
  await settle()
  expect(held.refused).toHaveLength(2)
  await held.end(104)
  await held.all()
  expect([held.order.length, held.order.indexOf('person')]).toEqual([104, 8])
})

test('while all places are of different addresses, the next one is refused', async () => {
  const held = heldTurns()
  for (let group = 0; group < 104; group += 1) held.take(`${group}`)
  held.take('late')
  await settle()
  expect(held.refused).toEqual(['late'])
  await held.end(104)
  await held.all()
  expect(held.order).toEqual(Array.from({ length: 104 }, (_, group) => `${group}`))
})

test('a work that fails hands its turn on, and its error is the answer', async () => {
  const turns = new Turns()
  const failing = Array.from({ length: 9 }, (_, index) =>
    turns.take('a', () => Promise.reject(new Error(`broken ${index}`))).catch(({ message }: Error) => message),
  )
  expect(await Promise.all(failing)).toEqual(Array.from({ length: 9 }, (_, index) => `broken ${index}`))
  expect(await turns.take('b', async () => 1)).toBe(1)
})
