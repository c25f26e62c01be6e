import { expect, test } from 'bun:test'
import { Pool, PoolFull } from './pool.ts'

const patient = () => new AbortController().signal

test('each item is with one caller at a time, and who waits longest is next', async () => {
  const pool = new Pool(['a', 'b'], 2)
  expect(new Set([await pool.take(patient()), await pool.take(patient())])).toEqual(new Set(['a', 'b']))
  const served: string[] = []
  const first = pool.take(patient()).then((item) => served.push(`first ${item}`))
  const second = pool.take(patient()).then((item) => served.push(`second ${item}`))
  pool.giveBack('b')
  await first
  pool.giveBack('a')
  await second
  expect(served).toEqual(['first b', 'second a'])
  expect([pool.inUse, pool.waitingCount]).toEqual([2, 0])
})

test('a full waiting room refuses at once', async () => {
  const pool = new Pool(['a'], 1)
  await pool.take(patient())
  const waiting = pool.take(patient())
  expect(pool.take(patient())).rejects.toBeInstanceOf(PoolFull)
  pool.giveBack('a')
  expect(await waiting).toBe('a')
})

test('a caller that hangs up while waiting takes no item, and leaves the place to others', async () => {
  const pool = new Pool(['a'], 1)
  await pool.take(patient())
  const hangUp = new AbortController()
  const leaving = pool.take(hangUp.signal)
  hangUp.abort(new Error('gone'))
  expect(leaving).rejects.toThrow('gone')
  expect(pool.waitingCount).toBe(0)
  pool.giveBack('a')
  expect(pool.inUse).toBe(0)
  expect(pool.take(hangUp.signal)).rejects.toThrow('gone')
  expect(pool.inUse).toBe(0)
})
