import { expect, test } from 'bun:test'
import type { ChatCall } from '../dialect/spec.ts'
import { toPath, toWire } from './request.ts'

const CALL: ChatCall = {
  model: 'gemini-x',
  messages: [{ role: 'user', content: 'Hi' }],
  maxTokens: null,
  outputTokens: 4_096,
  temperature: null,
}
const wireOf = (more: Partial<ChatCall> = {}) => JSON.parse(toWire({ ...CALL, ...more }))

test.each([
  ['gemini-x', '/models/gemini-x:streamGenerateContent?alt=sse'],
  ['models/gemini-x', '/models/gemini-x:streamGenerateContent?alt=sse'],
  ['tunedModels/mine', '/tunedModels/mine:streamGenerateContent?alt=sse'],
  ['x?key=1#y', '/models/x%3Fkey%3D1%23y:streamGenerateContent?alt=sse'],
])('the path of %p is %p', (model, path) => {
  expect(toPath(model)).toBe(path)
})

test('a call leaves out what the model decides', () => {
  expect(wireOf()).toEqual({ contents: [{ role: 'user', parts: [{ text: 'Hi' }] }], generationConfig: {} })
})

test('system messages go beside the contents, and messages of one role in a row into one', () => {
  const messages = [
    { role: 'system' as const, content: 'Be brief.' },
    { role: 'user' as const, content: 'One' },
    { role: 'user' as const, content: 'Two' },
    { role: 'assistant' as const, content: 'Three' },
  ]
  expect(wireOf({ messages })).toMatchObject({
    systemInstruction: { parts: [{ text: 'Be brief.' }] },
    contents: [
      { role: 'user', parts: [{ text: 'One' }, { text: 'Two' }] },
      { role: 'model', parts: [{ text: 'Three' }] },
    ],
  })
})

test('limits are passed on, temperatures from 0 to 2', () => {
  const generationConfig = (more: Partial<ChatCall>) => wireOf(more).generationConfig
  expect(generationConfig({ maxTokens: 7, temperature: 0 })).toEqual({ maxOutputTokens: 7, temperature: 0 })
  expect(generationConfig({ temperature: 2 })).toEqual({ temperature: 2 })
})
