import { expect, test } from 'bun:test'
import { fc } from '../../test/properties.ts'
import { Breaker } from './breaker.ts'

function opened(atMs = 0): Breaker {
  const breaker = new Breaker(5)
  for (let failures = 0; failures < 5; failures += 1) breaker.failed(atMs, false)
  return breaker
}

test('five failures in a row open it, four do not, and a success in between begins anew', () => {
  const breaker = new Breaker(5)
  for (let failures = 0; failures < 4; failures += 1) breaker.failed(0, false)
  breaker.succeeded()
  for (let failures = 0; failures < 4; failures += 1) breaker.failed(0, false)
  expect([breaker.state, breaker.waitMs(0)]).toEqual(['closed', 0])
  breaker.failed(0, false)
  expect([breaker.state, breaker.waitMs(0), breaker.waitMs(4_999), breaker.waitMs(5_000)]).toEqual([
    'open',
    5_000,
    1,
    0,
  ])
})

test('after the pause one call tries it, and others wait for what becomes of that', () => {
  const breaker = opened()
  expect(breaker.asked(4_999)).toBe(false)
  expect(breaker.asked(5_000)).toBe(true)
  expect([breaker.state, breaker.waitMs(5_000) > 0, breaker.asked(5_000)]).toEqual(['trial', true, false])
  breaker.succeeded()
  expect([breaker.state, breaker.waitMs(5_000)]).toEqual(['closed', 0])
})

test('each trial that fails doubles the pause, up to a minute; one that is cancelled leaves it to the next call', () => {
  const breaker = opened()
  let nowMs = 5_000
  for (const pauseMs of [10_000, 20_000, 40_000, 60_000, 60_000]) {
    expect(breaker.asked(nowMs)).toBe(true)
    breaker.failed(nowMs, true)
    expect(breaker.waitMs(nowMs)).toBe(pauseMs)
    nowMs += pauseMs
  }
  expect(breaker.asked(nowMs)).toBe(true)
  breaker.cancelled(true)
  expect([breaker.state, breaker.waitMs(nowMs), breaker.asked(nowMs)]).toEqual(['open', 0, true])
  breaker.succeeded()
  expect(opened().waitMs(0)).toBe(5_000)
})

test('failures of calls that began before it opened do not make the pause longer', () => {
  const breaker = opened()
  breaker.failed(3_000, false)
  expect(breaker.waitMs(3_000)).toBe(2_000)
})

test('whatever happens, there is one trial at most, and no pause over a minute', () => {
  const step = fc.constantFrom('ask', 'fail', 'succeed', 'cancel', 'wait')
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const breaker = new Breaker(5)
      const asking: boolean[] = []
      let nowMs = 0
      for (const each of steps) {
        nowMs += each === 'wait' ? 3_000 : 1
        if (each === 'ask') asking.push(breaker.asked(nowMs))
        else if (each === 'succeed' && asking.length > 0) {
          asking.shift()
          breaker.succeeded()
          // The trials before are ordinary calls of a well target now.
          asking.fill(false)
        } else if (each === 'fail' && asking.length > 0) breaker.failed(nowMs, asking.shift() === true)
        else if (each === 'cancel' && asking.length > 0) breaker.cancelled(asking.shift() === true)
        expect(asking.filter((isTrial) => isTrial).length).toBe(breaker.state === 'trial' ? 1 : 0)
        expect(breaker.waitMs(nowMs)).toBeWithin(0, 60_001)
      }
    }),
  )
})
