import { expect, test } from 'bun:test'
import { createOpenRequests, type LeavePlace } from './openRequests.ts'

const key = (id: string, organizationId = `organization of ${id}`) => ({ id, organizationId })

test('a key has so many places and no more; what is given back is free again, for that key alone (K4)', () => {
  const requests = createOpenRequests(2)
  const first = requests.take(key('a'))
  const second = requests.take(key('a'))
  expect(requests.take(key('a'))).toMatchObject({ code: 'stream_limit_exceeded', retryAfterSeconds: 1 })
  expect(requests.take(key('b'))).toBeFunction()
  if (typeof first !== 'function' || typeof second !== 'function') throw new Error('a place was refused')
  first()
  expect(requests.take(key('a'))).toBeFunction()
  expect(requests.take(key('a'))).toMatchObject({ code: 'stream_limit_exceeded' })
  second()
  expect(requests.take(key('a'))).toBeFunction()
})

test('an organization has the places of ten keys, however many keys it has', () => {
  const requests = createOpenRequests(2)
  const taken: LeavePlace[] = []
  for (let count = 0; count < 20; count += 1) {
    const place = requests.take(key(`key ${count}`, 'o'))
    if (typeof place === 'function') taken.push(place)
  }
  expect(taken).toHaveLength(20)
  expect(requests.take(key('one more', 'o'))).toMatchObject({
    code: 'stream_limit_exceeded',
    message: expect.stringContaining('20 requests'),
    retryAfterSeconds: 1,
  })
  expect(requests.take(key('a', 'another'))).toBeFunction()
  taken[7]?.()
  expect(requests.take(key('one more', 'o'))).toBeFunction()
  expect(requests.take(key('and one', 'o'))).toMatchObject({ code: 'stream_limit_exceeded' })
})
