import { expect, test } from 'bun:test'
import { progressLine } from './pullModel.ts'

test.each([
  [0, 2e9, '[..............................]   0%  0.0 of 2.0 GB'],
  [1e9, 2e9, '[###############...............]  50%  1.0 of 2.0 GB'],
  [2e6, 2e6, '[##############################] 100%  2.0 of 2.0 MB'],
  [3e6, 2e6, '[##############################] 100%  3.0 of 2.0 MB'],
  [0, 0, '[..............................]   0%  0.0 of 0.0 MB'],
])('%p of %p bytes is drawn as %s', (receivedBytes, totalBytes, line) => {
  expect(progressLine(receivedBytes, totalBytes)).toBe(line)
})
