import { describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { exchangeOf, TEST_KEY, TEST_SESSION } from '../../../test/exchange.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'
import { NO_SUCH_PATH } from '../envelopes.ts'
import type { Middleware } from '../pipeline.ts'
import { INVALID_API_KEY, type Principal } from '../principal.ts'
import { askAgain } from './askAgain.ts'

const AWAY = refusal('upstream_unavailable', 'The API key can not be checked.')

/** The answer to a request that takes so long to come, by a caller whose step then says `found`. */
async function ask(milliseconds: number, found: Refusal | Principal, began: Principal = TEST_KEY) {
  const clock = new TurnedClock()
  const pending = exchangeOf('/v1/things', {}, { principal: began, startedAtMs: clock.monotonicMs() })
  await clock.turn(milliseconds)
  const caller: Middleware = (request) => {
    if ('code' in found) return found
    request.principal = found
    return null
  }
  const refused = await askAgain({ clock }, [caller])(pending)
  expect(pending.principal).toBe(began)
  return refused?.code ?? null
}

describe('a request whose body took a quarter of a second', () => {
  test.each([
    ['its key was revoked', INVALID_API_KEY, 'invalid_api_key'],
    ['its person is no operator any more', NO_SUCH_PATH, 'not_found'],
    ['nobody can tell', AWAY, null],
    ['its key is good', TEST_KEY, null],
  ] as const)('%s', async (_, found, code) => {
    expect(await ask(250, found)).toBe(code)
    // Before, nothing is asked.
    expect(await ask(249, found)).toBeNull()
  })

  test('its person acts for another organization by now', async () => {
    const elsewhere = { ...TEST_SESSION, organizationId: '00000000-0000-4000-8000-0000000000ff' }
    expect(await ask(250, elsewhere, TEST_SESSION)).toBe('unauthenticated')
  })
})
