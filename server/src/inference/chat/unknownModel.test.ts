import { expect, test } from 'bun:test'
import { exchangeOf, TEST_KEY } from '../../../test/exchange.ts'
import type { RouteRequest } from '../../http/pipeline.ts'
import type { ChatDependencies } from './dependencies.ts'
import { chatCompletions } from './http.ts'

const dependencies = {
  catalog: () => ({ find: () => ({ kind: 'unknown' }) }),
} as unknown as ChatDependencies
const COMPAT = { maxCompletionTokens: true, neutralParameters: true, embeddingsBase64: true, textParts: true }

test('a stream for an unknown model has status 200, and says that nobody pays for it (C2, K4)', async () => {
  let unpaid = 0
  const body = { model: 'svc/none', stream: true, messages: [{ role: 'user', content: 'Hi' }] }
  const init = { method: 'POST', body: '{}' }
  const exchange = exchangeOf('/v1/chat/completions', init, {
    principal: TEST_KEY,
    body,
    noteUnpaid: () => void unpaid++,
  })
  const prepared = chatCompletions(dependencies, COMPAT, 100)(exchange as RouteRequest)
  if (!prepared.ok) throw new Error(prepared.refusal.message)
  const answer = await prepared.value(null)
  expect(answer instanceof Response && [answer.status, await answer.text()]).toEqual([
    200,
    expect.stringContaining('model_not_found'),
  ])
  expect(unpaid).toBe(1)
})
