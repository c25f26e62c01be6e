import { expect, test } from 'bun:test'
import { holdReloads, type Signals } from './signals.ts'

function signalled() {
  const callbacks: (() => void)[] = []
  const signals: Signals = {
    onStop: () => {},
    onReload: (callback) => void callbacks.push(callback),
    onOrphaned: () => {},
  }
  return {
    signals,
    hangUp() {
      for (const callback of callbacks) callback()
    },
  }
}

test.each([
  [0, 0],
  [1, 1],
  // One reading sees all that was changed before.
  [3, 1],
])('of %d reloads that were asked for during the start, %d is made after it', (before, made) => {
  const { signals, hangUp } = signalled()
  const held = holdReloads(signals)
  for (let count = 0; count < before; count += 1) hangUp()
  let reloads = 0
  held.onReload(() => {
    reloads += 1
  })
  expect(reloads).toBe(made)
  hangUp()
  expect(reloads).toBe(made + 1)
})
