import { describe, expect, test } from 'bun:test'
import { createAttemptCounter } from './attempts.ts'

/** Buckets that are never refilled. */
function open() {
  const taken = new Map<string, number>()
  return createAttemptCounter({
    take(bucket, { burst }) {
      const count = (taken.get(bucket) ?? 0) + 1
      taken.set(bucket, count)
      return { admitted: count <= burst, standing: { retryAfterSeconds: 7 } }
    },
  })
}

async function useUp(attempt: () => Promise<number | null>, most = 200): Promise<number> {
  for (let count = 0; count < most; count += 1) if ((await attempt()) !== null) return count
  return most
}

test('a person who registers an address, or wants it as a new one, leaves the resets of its owner alone', async () => {
  const attempts = open()
  for (const kind of ['registration', 'newAddress'] as const)
    expect(await useUp(() => attempts.byEmail(kind, 'owner@example.com'))).toBe(3)
  expect(await attempts.byEmail('reset', 'owner@example.com')).toBeNull()
})

test('one organization mails one address five invitations, however they are written, and others as before', async () => {
  const attempts = open()
  let turn = 0
  const toOne = () => attempts.invitation('a', turn++ % 2 === 0 ? ' Guest@example.com' : 'guest@example.com', false)
  expect(await useUp(toOne)).toBe(5)
  expect(await attempts.invitation('b', 'guest@example.com', false)).toBeNull()
  expect(await useUp(() => attempts.invitation('a', `${turn++}@example.com`, false))).toBe(45)
})

test('a new organization mails ten invitations at once, whoever they are to', async () => {
  const attempts = open()
  let turn = 0
  expect(await useUp(() => attempts.invitation('a', `${turn++}@example.com`, true))).toBe(10)
})

test('the known browsers of one account have a limit together, and those of another account theirs', async () => {
  const attempts = open()
  let turn = 0
  const byNewMark = () =>
    attempts.byKnownBrowser(`mark ${turn++}`, turn % 2 === 0 ? 'Ada@example.com ' : 'ada@example.com')
  expect(await useUp(() => attempts.byKnownBrowser('a mark', 'ada@example.com'))).toBe(10)
  expect(await useUp(byNewMark)).toBe(50)
  expect(await attempts.byKnownBrowser('a mark of another', 'eve@example.com')).toBeNull()
})

describe('the total of attempts', () => {
  test('is used up by a customer with a /48 for further ones alone: 256 groups of addresses that try all the time', async () => {
    const attempts = open()
    const customer = async (group: number) =>
      attempts.inTotal('deviceLogin', `2001:db8:0:${(group << 8).toString(16)}::/56`)
    for (let group = 0; group < 256; group += 1) {
      expect(await customer(group)).toBeNull()
      const further = await useUp(() => customer(group))
      expect(further).toBe(group === 0 ? 100 : 0)
    }
    expect(await attempts.inTotal('deviceLogin', '192.0.2.1')).toBeNull()
    expect(await attempts.inTotal('deviceLogin', '192.0.2.1')).toBe(7)
  })

  test('has a bound for first ones too', async () => {
    const attempts = open()
    let address = 0
    const first = () => attempts.inTotal('deviceLogin', `192.0.2.${address++}`)
    expect(await useUp(first, 400)).toBe(300)
  })

  test('of codes leaves a first one to each person, whatever another types', async () => {
    const attempts = open()
    expect(await useUp(() => attempts.inTotal('userCode', 'one'))).toBe(51)
    expect(await attempts.inTotal('userCode', 'another')).toBeNull()
  })
})
