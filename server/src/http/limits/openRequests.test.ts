import { expect, test } from 'bun:test'
import { createOpenRequests } from './openRequests.ts'

test('a key has so many places and no more; what is given back is free again, for that key alone (K4)', () => {
  const requests = createOpenRequests(2)
  const first = requests.take('a')
  const second = requests.take('a')
  expect(requests.take('a')).toMatchObject({ code: 'stream_limit_exceeded', retryAfterSeconds: 1 })
  expect(requests.take('b')).toBeFunction()
  if (typeof first !== 'function' || typeof second !== 'function') throw new Error('a place was refused')
  first()
  expect(requests.take('a')).toBeFunction()
  expect(requests.take('a')).toMatchObject({ code: 'stream_limit_exceeded' })
  second()
  expect(requests.take('a')).toBeFunction()
})
