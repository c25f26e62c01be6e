import { expect, test } from 'bun:test'
import type { ChatCall } from '../dialect/spec.ts'
import { toWire } from './request.ts'

const CALL: ChatCall = {
  model: 'claude-x',
  messages: [{ role: 'user', content: 'Hi' }],
  maxTokens: null,
  outputTokens: 4_096,
  temperature: null,
}
const wireOf = (more: Partial<ChatCall> = {}) => JSON.parse(toWire({ ...CALL, ...more }))
const block = (text: string) => ({ type: 'text', text })

test("a call is always streamed, and its limit is the model's own where the client names none", () => {
  expect(wireOf()).toEqual({
    model: 'claude-x',
    max_tokens: 4_096,
    messages: [{ role: 'user', content: [block('Hi')] }],
    stream: true,
  })
})

test('system messages go beside the messages, and messages of one role in a row into one', () => {
  const messages = [
    { role: 'system' as const, content: 'Be brief.' },
    { role: 'user' as const, content: 'One' },
    { role: 'user' as const, content: 'Two' },
    { role: 'assistant' as const, content: 'Three' },
  ]
  expect(wireOf({ messages })).toMatchObject({
    system: [block('Be brief.')],
    messages: [
      { role: 'user', content: [block('One'), block('Two')] },
      { role: 'assistant', content: [block('Three')] },
    ],
  })
})

test('limits are passed on, a temperature of 0 and of 1 too', () => {
  expect(wireOf({ maxTokens: 7, outputTokens: 7, temperature: 0 })).toMatchObject({ max_tokens: 7, temperature: 0 })
  expect(wireOf({ temperature: 1 }).temperature).toBe(1)
})

test('a temperature above 1 is refused in our words, and never changed in silence', () => {
  expect(() => toWire({ ...CALL, temperature: 1.01 })).toThrow(
    expect.objectContaining({ kind: 'rejected', publicMessage: expect.stringContaining('from 0 to 1') }),
  )
})
