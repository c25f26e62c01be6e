import { expect, test } from 'bun:test'
import { fc } from '../../test/properties.ts'
import { createRecent } from './recent.ts'

test('never holds more than its capacity, and never gives a value that was not the last one set', () => {
  const action = fc.tuple(fc.constantFrom('get', 'set', 'delete'), fc.integer({ min: 0, max: 30 }).map(String))
  fc.assert(
    fc.property(fc.array(action, { maxLength: 300 }), (actions) => {
      const recent = createRecent<number>(10)
      const truth = new Map<string, number>()
      actions.forEach(([what, name], index) => {
        if (what === 'set') {
          recent.set(name, index)
          truth.set(name, index)
        } else if (what === 'delete') {
          recent.delete(name)
          truth.delete(name)
        } else {
          const value = recent.get(name)
          if (value !== undefined) expect(value).toBe(truth.get(name) ?? -1)
        }
        expect(recent.size()).toBeLessThanOrEqual(10)
      })
    }),
  )
})

test('a value that is used stays while others come and go', () => {
  const recent = createRecent<number>(10)
  recent.set('used', 1)
  for (let index = 0; index < 1_000; index += 1) {
    recent.set(`passing ${index}`, index)
    expect(recent.get('used')).toBe(1)
  }
  expect(recent.get('passing 0')).toBeUndefined()
})

test('clear forgets both generations', () => {
  const recent = createRecent<number>(4)
  for (let index = 0; index < 4; index += 1) recent.set(String(index), index)
  recent.clear()
  expect(recent.size()).toBe(0)
})
