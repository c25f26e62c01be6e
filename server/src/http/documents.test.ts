import { afterAll, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { pipelineParts } from '../../test/exchange.ts'
import { publicDocumentsOf } from './documents.ts'
import { createRateLimiter } from './limits/rateLimit.ts'

const clock = new TurnedClock()
const parts = pipelineParts({ clock, clientAddress: (address, forwarded) => forwarded ?? address })
afterAll(() => parts.bodyWork.close())

const open = () => publicDocumentsOf([], { ...parts, addressRateLimiter: createRateLimiter(clock) })

/** Asks for a document from an address. */
async function ask(documents: ReturnType<typeof open>, path: string, query = '', address = '192.0.2.1') {
  const headers = { 'X-Forwarded-For': address, 'X-Request-Id': 'mine' }
  const request = new Request(`http://gateway.test${path}${query}`, { headers })
  const connection = { address: '192.0.2.9', setIdleTimeout: () => {} }
  const target = { path, query: query.slice(1), parameters: [] }
  const answer = await documents.get(path)?.(request, target, connection)
  if (answer === undefined) throw new Error(`there is no document at ${path}`)
  const told = ['RateLimit-Limit', 'RateLimit-Remaining', 'Retry-After', 'X-Request-Id'].map((name) =>
    answer.headers.get(name),
  )
  return { status: answer.status, told, json: (await answer.json()) as Record<string, unknown> }
}

describe('a document', () => {
  test.each(['/v1/health', '/v1/openapi.json', '/manage/openapi.json'])(
    '%s refuses unknown query parameters, all in one message',
    async (path) => {
      expect((await ask(open(), path)).status).toBe(200)
      expect(await ask(open(), path, '?x=1&y')).toMatchObject({
        status: 422,
        json: {
          code: 'validation_failed',
          detail: "The query parameters 'x' and 'y' are not known here: this path takes none.",
          request_id: 'mine',
        },
      })
    },
  )

  test.each(['/v1/openapi.json', '/manage/openapi.json'])(
    '%s is counted by the address of its reader',
    async (path) => {
      const documents = open()
      expect(await ask(documents, path)).toMatchObject({ status: 200, told: ['100', '99', null, 'mine'] })
      expect(await ask(documents, path, '?x')).toMatchObject({ status: 422, told: ['100', '98', null, 'mine'] })
      for (let sent = 2; sent < 100; sent += 1) expect((await ask(documents, path)).status).toBe(200)
      expect(await ask(documents, path, '?x')).toMatchObject({
        status: 429,
        told: ['100', '0', '1', 'mine'],
        json: { code: 'rate_limited' },
      })
      expect((await ask(documents, path, '', '192.0.2.2')).status).toBe(200)
      expect((await ask(documents, '/v1/health')).status).toBe(200)
      await clock.turn(100)
      expect((await ask(documents, path)).status).toBe(200)
    },
  )

  test('of a few bytes is not counted', async () => {
    const documents = open()
    for (let sent = 0; sent < 200; sent += 1) {
      const answer = await ask(documents, '/v1/health')
      expect([answer.status, ...answer.told]).toEqual([200, null, null, null, 'mine'])
    }
    expect((await ask(documents, '/v1/openapi.json')).told).toEqual(['100', '99', null, 'mine'])
  })
})
