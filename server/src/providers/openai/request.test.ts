import { expect, test } from 'bun:test'
import { toWire } from './request.ts'

const messages = [{ role: 'user' as const, content: 'Hi' }]

test('a call is always streamed, with usage asked for, and leaves out what the model decides', () => {
  expect(JSON.parse(toWire({ model: 'm', messages, maxTokens: null, outputTokens: 100, temperature: null }))).toEqual({
    model: 'm',
    messages: [{ role: 'user', content: 'Hi' }],
    stream: true,
    stream_options: { include_usage: true },
  })
})

test('usage in every chunk is asked for where the settings say that the server has it', () => {
  const call = { model: 'm', messages, maxTokens: null, outputTokens: 100, temperature: null }
  expect(JSON.parse(toWire(call, true)).stream_options).toEqual({ include_usage: true, continuous_usage_stats: true })
})

test('the limit of an answer is sent in the field that the settings name, and in no other', () => {
  const call = { model: 'm', messages, maxTokens: 7, outputTokens: 7, temperature: null }
  const wire = JSON.parse(toWire(call, false, 'max_completion_tokens'))
  expect(wire).toMatchObject({ max_completion_tokens: 7 })
  expect(wire).not.toHaveProperty('max_tokens')
  const unlimited = JSON.parse(toWire({ ...call, maxTokens: null }, false, 'max_completion_tokens'))
  expect(unlimited).not.toHaveProperty('max_completion_tokens')
})

test('limits are passed on, a temperature of 0 too', () => {
  const wire = JSON.parse(toWire({ model: 'm', messages, maxTokens: 7, outputTokens: 7, temperature: 0 }))
  expect(wire.max_tokens).toBe(7)
  expect(wire.temperature).toBe(0)
})
