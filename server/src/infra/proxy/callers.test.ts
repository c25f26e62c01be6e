/** Which connections end where there are too many. */

import { beforeEach, expect, test } from 'bun:test'
import { PassThrough } from 'node:stream'
import { TurnedClock } from '../../../test/clock.ts'
import { type Callers, createCallers } from './callers.ts'

let clock: TurnedClock
let callers: Callers

beforeEach(() => {
  clock = new TurnedClock()
  callers = createCallers(clock, (address) => (address === 'proxy' ? null : address))
})

/** Opens connections of an address; `isAsked`: each with a request. */
function open(count: number, address: string, isAsked = false): PassThrough[] {
  return Array.from({ length: count }, () => {
    const socket = new PassThrough()
    callers.add(socket, address)
    if (isAsked) callers.asked(socket)
    return socket
  })
}

const openOf = (sockets: PassThrough[]) => sockets.map(({ destroyed }) => !destroyed)

test("one caller's silent connections end its own oldest, and nobody else's", () => {
  const others = open(3, 'b')
  const own = open(258, 'a')
  expect(openOf(own).indexOf(true)).toBe(2)
  expect([openOf(others), callers.count]).toEqual([[true, true, true], 259])
})

test('connections with requests are no silent ones, however many an address has', () => {
  const asked = open(300, 'a', true)
  const silent = open(256, 'a')
  expect([...openOf(asked), ...openOf(silent)]).not.toContain(false)
})

test('where all places are taken, the longest silent one gives way to a new one', () => {
  const asked = open(1_000, 'proxy', true)
  const silent = open(1_000, 'proxy')
  const [late] = open(1, 'a')
  callers.asked(late as PassThrough)
  expect(callers.count).toBe(2_000)
  expect(openOf(silent).indexOf(true)).toBe(1)
  expect(openOf([...asked, late as PassThrough])).not.toContain(false)
})

test('where every place has a request, a new connection is closed', () => {
  open(2_000, 'proxy', true)
  expect(openOf(open(1, 'a'))).toEqual([false])
  expect(callers.count).toBe(2_000)
})

test('one whose answer is over is silent again, once its last request has one', () => {
  const [twice] = open(1, 'a', true) as [PassThrough]
  callers.asked(twice)
  callers.answered(twice)
  open(256, 'a')
  expect(twice.destroyed).toBe(false)
  callers.answered(twice)
  // It came first, but has waited since its answer alone.
  open(256, 'a')
  expect(twice.destroyed).toBe(false)
  open(1, 'a')
  expect(twice.destroyed).toBe(true)
})

test('one whose body is not taken ends after a minute, and not when it is taken again', async () => {
  const [left, slow] = open(2, 'a', true) as [PassThrough, PassThrough]
  for (const socket of [left, slow]) callers.stalled(socket, true)
  await clock.turn(30_000)
  // Of the answer: it is the body that has to be taken.
  callers.onBytes(left)
  await clock.turn(29_000)
  callers.stalled(slow, false)
  await clock.turn(30_000)
  expect(openOf([left, slow])).toEqual([true, true])
  await clock.turn(1_000)
  expect(openOf([left, slow])).toEqual([false, true])
  await clock.turn(568_000)
  expect(slow.destroyed).toBe(false)
  await clock.turn(1_000)
  expect(slow.destroyed).toBe(true)
})

test('one whose answer came before its body was taken has 15 seconds for its next head, as any other', async () => {
  const [early] = open(1, 'a', true) as [PassThrough]
  callers.stalled(early, true)
  callers.answered(early)
  callers.stalled(early, false)
  await clock.turn(14_000)
  expect(early.destroyed).toBe(false)
  await clock.turn(1_000)
  expect(early.destroyed).toBe(true)
})

test('closed callers are forgotten, whatever comes of them later', async () => {
  const [first] = open(257, 'a') as [PassThrough]
  callers.asked(first)
  callers.answered(first)
  callers.onBytes(first)
  callers.stalled(first, true)
  expect(callers.count).toBe(256)
  callers.close()
  expect([callers.count, clock.pending]).toEqual([0, 0])
})
