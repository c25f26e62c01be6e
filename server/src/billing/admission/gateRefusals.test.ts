import { expect, test } from 'bun:test'
import { cutMidCall } from '../../inference/chat/refusals.ts'
import { insufficientFor } from './gateRefusals.ts'
import { GATES } from './gates.ts'

test('a gate refuses with one code before a call and in the middle of it, and says what it is and what to do', () => {
  const told = GATES.map((gate) => {
    const [before, inMidCall] = [insufficientFor(gate, 'this video', 'Hint.'), cutMidCall(gate)]
    expect(inMidCall.code).toBe(before.code)
    return [before.code, before.message, inMidCall.message.split(' while ')[0]]
  })
  expect(told).toEqual([
    [
      'insufficient_balance',
      'The credit balance does not cover this video. Add credit. Hint.',
      'The credit balance ran out',
    ],
    [
      'quota_exceeded',
      'The daily spending limit does not leave enough for this video. Wait until 00:00 UTC, or ask an admin to raise it. Hint.',
      'The daily spending limit was reached',
    ],
    [
      'quota_exceeded',
      'The monthly spending limit does not leave enough for this video. Wait until the next month (UTC), or ask an admin to raise it. Hint.',
      'The monthly spending limit was reached',
    ],
    [
      'quota_exceeded',
      'The spending cap of new accounts, $20 in 60 minutes, does not leave enough for this video. Wait, or make a first payment. Hint.',
      'The spending cap of new accounts, $20 in 60 minutes, was reached',
    ],
  ])
})
