import { expect, test } from 'bun:test'
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

async function useUp(attempt: () => Promise<number | null>): Promise<number> {
  for (let count = 0; count < 100; count += 1) if ((await attempt()) !== null) return count
  return 100
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
  const toOne = () => attempts.invitation('a', turn++ % 2 === 0 ? ' Guest@example.com' : 'guest@example.com')
  expect(await useUp(toOne)).toBe(5)
  expect(await attempts.invitation('b', 'guest@example.com')).toBeNull()
  expect(await useUp(() => attempts.invitation('a', `${turn++}@example.com`))).toBe(45)
})
