import { expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { createOrganizationTurns, type OrganizationTurns } from './organizationTurns.ts'

const BOUNDS = { underWayMost: 2, waitingMost: 200, waitMostMs: 5_000 }
const isHere = () => false

/** Begins so many reads of an organization; they end when they are told to. */
function reads(turns: OrganizationTurns, organizationId: string, count: number, isGone = isHere) {
  const begun: (() => void)[] = []
  const answers = Array.from({ length: count }, (_, number) =>
    turns.take(organizationId, isGone, () => new Promise<number>((resolve) => begun.push(() => resolve(number)))),
  )
  return { begun, answers }
}

test('two reads of an organization are worked on at a time, in their order, and those of another do not wait for them', async () => {
  const turns = createOrganizationTurns(new TurnedClock(), BOUNDS)
  const { begun, answers } = reads(turns, 'one', 4)
  const other = reads(turns, 'other', 1)
  await Promise.resolve()
  expect([begun.length, other.begun.length]).toEqual([2, 1])
  begun[1]?.()
  expect(await answers[1]).toBe(1)
  expect(begun.length).toBe(3)
  for (const end of begun.splice(0)) end()
  await answers[2]
  for (const end of begun.splice(0)) end()
  expect(await Promise.all(answers)).toEqual([0, 1, 2, 3])
})

test('a read that fails gives its turn to the next', async () => {
  const turns = createOrganizationTurns(new TurnedClock(), BOUNDS)
  const failing = Array.from({ length: 3 }, () =>
    turns.take('one', isHere, () => {
      throw new Error('no database')
    }),
  )
  for (const each of failing) expect(each).rejects.toThrow('no database')
  await Promise.allSettled(failing)
  expect(await turns.take('one', isHere, () => 'read')).toBe('read')
})

test('the read of a client that has gone is not begun', async () => {
  const turns = createOrganizationTurns(new TurnedClock(), BOUNDS)
  const { begun, answers } = reads(turns, 'one', 2)
  const gone = reads(turns, 'one', 1, () => true)
  await Promise.resolve()
  for (const end of begun) end()
  await Promise.all([...answers, ...gone.answers])
  expect(gone.begun).toEqual([])
})

test('more than 200 reads that wait are refused, and another organization has its own 200', async () => {
  const turns = createOrganizationTurns(new TurnedClock(), BOUNDS)
  const { begun, answers } = reads(turns, 'one', 203)
  expect(await answers[202]).toMatchObject({ code: 'rate_limit_exceeded', retryAfterSeconds: 1 })
  const other = reads(turns, 'other', 1)
  expect(other.begun.length).toBe(1)
  const all = Promise.all(answers)
  const done = all.then(() => true)
  while (begun.length > 0) {
    for (const end of begun.splice(0)) end()
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(await done).toBe(true)
})

test('a read whose turn has not come within 5 s is told to try again, and those behind it keep their places', async () => {
  const clock = new TurnedClock()
  const turns = createOrganizationTurns(clock, BOUNDS)
  const { begun, answers } = reads(turns, 'one', 3)
  await clock.turn(4_999)
  const late = reads(turns, 'one', 1)
  await clock.turn(1)
  expect(await answers[2]).toMatchObject({ code: 'upstream_unavailable', retryAfterSeconds: 1 })
  for (const end of begun) end()
  await answers[1]
  expect([begun.length, late.begun.length]).toEqual([2, 1])
  for (const end of late.begun) end()
  expect(await late.answers[0]).toBe(0)
})
